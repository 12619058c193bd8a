//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
)

// TestInterruptedFiles holds that a signal ends the commands that read rows, even while they wait for some, with exit code 2; that they say so; and that
// they leave neither output nor temporary file.
func TestInterruptedFiles(t *testing.T) {
	hang := make(chan os.Signal, 1)
	signal.Notify(hang, syscall.SIGHUP) // what nohup has had ignored, children of these tests ignore too
	defer signal.Stop(hang)
	dir := emFiles(t)
	mustRun[any](t, dir, "", "replay", "--algorithm", "lca-gauss", "--passes", "1", "--input", "a.arrow", "--set", "source.features=[a, b]", "-o", "m.arrows")
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	const some = 300_000 // more than a pipe and the program's buffer hold: once it is written, the program has begun to read
	schema := append([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 8, 0}, make([]byte, some)...)
	for i, args := range [][]string{{"transform", "-o", "w.arrow"}, {"em", "expect", "-o", "w.sums"}} {
		end := []os.Signal{syscall.SIGTERM, syscall.SIGHUP}[i]
		for name, begun := range map[string][]byte{"in the schema": schema, "in a batch": largeBatch(t)[:some]} {
			cmd := exec.Command("lca-stream", append(slices.Clone(args), "--model", "m.arrows", "--input", "-")...)
			cmd.Dir = dir
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := stdin.Write(begun); err != nil {
				t.Fatal(name, err)
			}
			if err := cmd.Process.Signal(end); err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait() // closes stdin once the program has ended
			if cmd.ProcessState.ExitCode() != app.ExitFailed || !strings.Contains(said.String(), "interrupted before the end of the rows") {
				t.Errorf("%s, %s: %v: %s", args[0], name, err, said.String())
			}
		}
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d files, before %d: %v, %v", len(after), len(before), after, err)
	}
}

// largeBatch is a stream of one batch of a megabyte.
func largeBatch(t *testing.T) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Float64}, {Name: "b", Type: arrow.PrimitiveTypes.Float64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	for k := range 2 {
		b.Field(k).(*array.Float64Builder).AppendValues(make([]float64, 1<<16), nil)
	}
	var out bytes.Buffer
	if err := ipc.NewWriter(&out, ipc.WithSchema(schema)).Write(b.NewRecord()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
