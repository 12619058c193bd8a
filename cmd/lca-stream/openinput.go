package main

import (
	"context"
	"io"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// input is a file or a pipe of rows.
type input interface {
	Read(ctx context.Context) (source.Batch, error)
	Schema() *arrow.Schema
	Reuse()
	Close() error
}

// openInput opens a file, standard input for "-", or a pipe with a name, such as a shell makes of <(command).
func (p *program) openInput(ctx context.Context, path string, c format.FileConfig) (input, error) {
	if isStdin(path) {
		return openPipe(ctx, "standard input", p.stdin, c)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f := &namedPipe{path: path}
		in, err := openPipe(ctx, path, f, c)
		if err != nil {
			return nil, err
		}
		return closing{in, f}, nil
	}
	return source.OpenFiles([]string{path}, c)
}

// isStdin tells the names of standard input.
func isStdin(path string) bool { return path == "-" || path == "/dev/stdin" }

func openPipe(ctx context.Context, name string, r io.Reader, c format.FileConfig) (*source.Pipe, error) {
	in, err := source.OpenPipeWith(name, interruptible{ctx, r}, c)
	if err != nil && ctx.Err() != nil {
		return nil, errInterrupted
	}
	return in, err
}

// namedPipe is opened by the first read, because that waits for a program that writes, and a signal may come meanwhile.
type namedPipe struct {
	path string
	file *os.File
}

func (n *namedPipe) Read(b []byte) (int, error) {
	if n.file == nil {
		var err error
		if n.file, err = os.Open(n.path); err != nil {
			return 0, err
		}
	}
	return n.file.Read(b)
}

// closing is an input that closes the pipe it has opened.
type closing struct {
	*source.Pipe
	pipe *namedPipe
}

func (c closing) Close() error { return c.pipe.file.Close() }

// namedOnce refuses an input that is named twice: its rows would count twice.
func namedOnce(inputs []string) error {
	var seen []os.FileInfo
	stdin := false
	for _, path := range inputs {
		if isStdin(path) {
			if stdin {
				return usageError("--input %s is named twice", path)
			}
			stdin = true
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			continue // said when it is opened
		}
		for _, other := range seen {
			if os.SameFile(info, other) {
				return usageError("--input %s is named twice", path)
			}
		}
		seen = append(seen, info)
	}
	return nil
}

// notRead refuses an output over a file that is read.
func notRead(output string, inputs []string) error {
	info, err := os.Stat(output)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	for _, path := range inputs {
		if in, err := os.Stat(path); err == nil && os.SameFile(in, info) {
			return usageError("--output %s is %s, which is read", output, path)
		}
	}
	return nil
}

// inputAgain says whether the inputs of a command were named, the first by its flag and others after it.
func inputAgain(c *cobra.Command) bool {
	f := c.Flags().Lookup("input")
	return f != nil && f.Changed && f.Value.Type() == "stringArray"
}
