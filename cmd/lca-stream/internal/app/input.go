package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Input is a file or a pipe of rows.
type Input interface {
	Reader
	Schema() *arrow.Schema
	Reuse()
	Close() error
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

// NamedOnce refuses an input that is named twice: its rows would count twice.
func NamedOnce(inputs []string) error {
	var seen []os.FileInfo
	stdin := false
	for _, path := range inputs {
		if isStdin(path) {
			if stdin {
				return UsageError("--input %s is named twice", path)
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
				return UsageError("--input %s is named twice", path)
			}
		}
		seen = append(seen, info)
	}
	return nil
}

// NotRead refuses the output of a flag over a file that is read.
func NotRead(flag, output string, inputs []string) error {
	info, err := os.Stat(output)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	for _, path := range inputs {
		if in, err := os.Stat(path); err == nil && os.SameFile(in, info) {
			return UsageError("%s %s is %s, which is read", flag, output, path)
		}
	}
	return nil
}

// inputAgain says whether the inputs of a command were named, the first by its flag and others after it.
func inputAgain(c *cobra.Command) bool {
	f := c.Flags().Lookup("input")
	return f != nil && f.Changed && f.Value.Type() == "stringArray"
}

// interruptible ends a read when its context ends. A read of a pipe in which nothing comes cannot be ended otherwise, so it goes on in a goroutine that
// ends with the process, and what it was reading into is given up.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(b []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := i.r.Read(b)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-i.ctx.Done():
		return 0, i.ctx.Err()
	}
}

// RowInputs replaces patterns and directories among inputs of rows by the files that they stand for, in the order of their names.
func RowInputs(inputs []string) ([]string, error) {
	matched, err := Matches(inputs)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, path := range matched {
		if info, err := os.Stat(path); err != nil || !info.IsDir() { // what is not there is said when it is opened
			files = append(files, path)
			continue
		}
		within, err := filesIn(path)
		if err != nil {
			return nil, err
		}
		files = append(files, within...)
	}
	return files, nil
}

// Matches replaces patterns among inputs by what they match, in the order of the names. A file may have the name of a pattern. As in a shell, names
// that begin with a dot match only a pattern that does.
func Matches(inputs []string) ([]string, error) {
	var all []string
	for _, input := range inputs {
		if _, err := os.Lstat(input); err == nil || !strings.ContainsAny(input, "*?[") {
			all = append(all, input)
			continue
		}
		found, err := filepath.Glob(input)
		if err != nil {
			return nil, UsageError("--input %s: %v", input, err)
		}
		if !strings.HasPrefix(filepath.Base(input), ".") {
			found = slices.DeleteFunc(found, func(path string) bool { return strings.HasPrefix(filepath.Base(path), ".") })
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("--input %s: no file matches this pattern", input)
		}
		slices.Sort(found)
		all = append(all, found...)
	}
	return all, nil
}

// filesIn returns the files of rows in a directory. Names that begin with a dot or an underscore are what writers note next to them. Anything else in it
// might be rows too, and is refused: they would be missing without a word.
func filesIn(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory) // sorted
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") {
			continue
		}
		path := filepath.Join(directory, e.Name())
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !format.Reads(path) || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("--input %s holds %s, which is no file of rows: say which are, by a pattern such as '%s'", directory, e.Name(), filepath.Join(directory, "*.parquet"))
		}
		files = append(files, path)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("--input %s: the directory holds no files of rows", directory)
	}
	return files, nil
}

// A schema takes up to 70 times its text, in each partition that reads by it.
const leastSchema, mostSchema = 256 << 10, 4 << 20

// SchemaBytes is how many bytes a schema may have, with all that it refers to.
func SchemaBytes(c config.Memory) int { return int(min(max(LimitOf(c)/1024, leastSchema), mostSchema)) }

// LeastVersion is what a version may take at least.
const LeastVersion = 32 << 20

// LeastFileBatch is what a batch of a file may take at least: as much as a message on a topic.
const LeastFileBatch = 64 << 20

// FileLimits bounds a batch of a file to half of what the process may take, because what is made of it takes as much again.
func FileLimits(c config.Memory, log *slog.Logger) format.FileConfig {
	return format.FileConfig{MaxBytes: max(MemoryLimit(c, log)/2, LeastFileBatch), Changed: func(column, how string, n int) {
		log.Warn(how, "column", column, "values", n)
	}}
}

// Needs says which columns of a file are read: those that features are named after, or where none are named those that can be features without
// a name, which texts and bytes never are; and the columns of the other names.
func Needs(features []string, others ...string) func(arrow.Field) bool {
	names := append(slices.Clone(others), features...)
	return func(f arrow.Field) bool {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, f.Name) && name != "" }) {
			return true
		}
		return len(features) == 0 && !isText(f.Type)
	}
}

// isText reports whether values are texts or bytes.
func isText(t arrow.DataType) bool {
	if dict, ok := t.(*arrow.DictionaryType); ok {
		t = dict.ValueType
	}
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return true
	}
	return false
}

// ReadSnapshotFile reads a model.
func ReadSnapshotFile(path string) (*snapshot.Snapshot, error) {
	if isStdin(path) {
		return nil, UsageError("a model is not read from standard input (%s), which is for rows: name its file, or a pipe as in <(command)", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	s, err := snapshot.ReadFile(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, Unlike(path, ContentModel, err))
	}
	return s, nil
}

// ReadRows hands over the messages of a file, or of standard input. A message must not be kept.
func ReadRows(ctx context.Context, p *Program, path string, c format.FileConfig, take func(*source.Message) error) error {
	in, err := p.OpenInput(ctx, path, c)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	in.Reuse()
	return EachMessage(ctx, in, take)
}

// errInterrupted is that a signal came while there were rows to read.
var errInterrupted = errors.New("interrupted before the end of the rows: start it over")

// Reader reads batches until source.ErrEnd.
type Reader interface {
	Read(ctx context.Context) (source.Batch, error)
}

// EachMessage hands over all messages of an input, unless ctx ends before.
func EachMessage(ctx context.Context, in Reader, take func(*source.Message) error) error {
	for {
		b, err := in.Read(ctx)
		switch {
		case errors.Is(err, source.ErrEnd):
			return nil
		case ctx.Err() != nil:
			return errInterrupted
		case err != nil:
			return err
		}
		for i := range b.Messages {
			if err := take(&b.Messages[i]); err != nil {
				if ctx.Err() != nil {
					return errInterrupted
				}
				return err
			}
		}
		b.Release()
	}
}

// SameColumns says where two schemas differ.
func SameColumns(first, other *arrow.Schema) error {
	for i, field := range first.Fields() {
		switch {
		case i >= len(other.Fields()):
			return fmt.Errorf("it has no column %q", field.Name)
		case !field.Equal(other.Field(i)):
			return fmt.Errorf("column %d is %v, and not %v", i+1, other.Field(i), field)
		}
	}
	if more := other.Fields()[len(first.Fields()):]; len(more) > 0 {
		return fmt.Errorf("it has one more column, %q", more[0].Name)
	}
	return nil
}
