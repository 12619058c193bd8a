package main

import (
	"bytes"
	"io"
	"os/exec"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// TestFlatMemory holds that what reads rows from a pipe takes no more memory for many than for few. The many are 170 MB, and their output 340 MB.
func TestFlatMemory(t *testing.T) {
	dir := emFiles(t)
	mustRun[any](t, dir, "", "replay", "--algorithm", "lca-gauss", "--passes", "1", "--sample", "100", "--input", "a.arrow", "-o", "m.arrows", "--set", "source.features=[a, b]")
	stream := largeBatch(t)
	r, err := ipc.NewReader(bytes.NewReader(append(slices.Clone(stream), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)))
	if err != nil || !r.Next() {
		t.Fatal(err, r.Err())
	}
	for name, args := range map[string][]string{"transform": {"transform", "-o", "-"}, "em expect": {"em", "expect", "-o", "-"}} {
		run := func(batches int) (mebibytes int) {
			cmd := exec.Command("lca-stream", append(slices.Clone(args), "--model", "m.arrows", "--input", "-")...)
			cmd.Dir, cmd.Stdout = dir, nowhere{} // a pipe, which this process reads
			stdin, err := cmd.StdinPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			w := ipc.NewWriter(stdin, ipc.WithSchema(r.Schema()))
			for range batches {
				if err := w.Write(r.Record()); err != nil {
					t.Fatal(name, err)
				}
			}
			mebibytes = testtools.PeakMiB(t, cmd.Process.Pid) // all but what fits into a pipe is read
			if err := w.Close(); err != nil {
				t.Fatal(name, err)
			}
			if err := stdin.Close(); err != nil {
				t.Fatal(name, err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(name, err)
			}
			return mebibytes
		}
		few, many := run(16), run(160)
		t.Logf("%s: %d MiB for 1 million rows, %d for 10", name, few, many)
		if many > few+32 { // the garbage collector's doubling of some batches; the rows are five times that
			t.Errorf("%s takes %d MiB for 1 million rows, and %d for 10", name, few, many)
		}
	}
}

// nowhere is not an *os.File, so that the output goes through a pipe.
type nowhere struct{ io.Writer }

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
