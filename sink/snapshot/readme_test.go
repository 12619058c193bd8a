package snapshot_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// The lines of Python in the README, run as they are printed there on the chunks of a snapshot as a
// topic holds them, whiten rows as Model.Whiten does. d = 512 needs several chunks.
func TestReadmePythonReadsASnapshot(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(readme)
	if lines == nil {
		t.Fatal("README.md has no block of Python")
	}
	for _, d := range []int{5, 512} {
		t.Run(fmt.Sprintf("d=%d", d), func(t *testing.T) {
			dir := t.TempDir()
			chunks := writeChunks(t, dir, d)
			if d == 512 && chunks < 2 {
				t.Fatalf("%d chunk: the case must need several", chunks)
			}
			script := filepath.Join(dir, "readme.py")
			program := fmt.Sprintf(readmeHarness, chunks, indent(string(lines[1])))
			if err := os.WriteFile(script, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			testtools.RunPython(t, script, dir)
		})
	}
}

// readmeHarness provides what the README's text presupposes, and checks Y.
const readmeHarness = `import sys
import numpy as np
import pyarrow as pa

class Message:
    def __init__(self, path):
        self.bytes = open(path, "rb").read()
    def value(self):
        return self.bytes

folder = sys.argv[1]
chunks = [Message(f"{folder}/chunk{i}") for i in range(%d)]
X = np.loadtxt(f"{folder}/x", ndmin=2)
want = np.loadtxt(f"{folder}/y", ndmin=2)
if True:
%s
assert Y.shape == want.shape, (Y.shape, want.shape)
assert np.abs(Y - want).max() <= 1e-9 * np.abs(want).max(), np.abs(Y - want).max()
`

func indent(lines string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n    ")
}

// writeChunks writes the values of the model part's messages, rows, and the rows whitened.
func writeChunks(t *testing.T, dir string, d int) (chunks int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(d)))
	x := mat.NewDense(d+60, d, nil)
	for i := range d + 60 {
		for j := range d {
			x.Set(i, j, 100+rng.NormFloat64()*float64(1+j%7))
		}
	}
	c := lca.DefaultConfig()
	c.MaxIter = 1
	m, err := lca.Fit(context.Background(), x, c)
	if err != nil {
		t.Fatal(err)
	}
	features := make([]string, d)
	for i := range features {
		features[i] = fmt.Sprintf("f%d", i)
	}
	msgs, _, err := snapshot.Messages(&snapshot.Snapshot{Model: m, ModelID: "m", Version: 1, Features: features}, "snapshots", 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, msg := range msgs {
		if len(msg.Value) > 900_000 {
			t.Errorf("chunk %s has %d bytes, more than 900 kB", msg.Key, len(msg.Value))
		}
		if !strings.Contains(string(msg.Key), "/model/") {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("chunk%d", chunks)), msg.Value, 0o600); err != nil {
			t.Fatal(err)
		}
		chunks++
	}
	some := mat.DenseCopyOf(x.Slice(0, 10, 0, d))
	var y mat.Dense
	m.Whiten(&y, some)
	writeMatrix(t, filepath.Join(dir, "x"), some)
	writeMatrix(t, filepath.Join(dir, "y"), &y)
	return chunks
}

func writeMatrix(t *testing.T, path string, a *mat.Dense) {
	t.Helper()
	var text strings.Builder
	r, c := a.Dims()
	for i := range r {
		for j := range c {
			fmt.Fprintf(&text, "%.17g ", a.At(i, j))
		}
		text.WriteByte('\n')
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
