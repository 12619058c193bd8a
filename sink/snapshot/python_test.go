//go:build unix

package snapshot

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/testtools"
)

// TestPythonReadsAll: each form of a snapshot opens in its own library, and gives the same y.
func TestPythonReadsAll(t *testing.T) {
	const d, rows = 180, 20
	s := example(d, 40, 1500, 100)
	// W and μ of one magnitude, so that a relative error of y means something; the other arrays
	// keep their wild numbers.
	r := rand.New(rand.NewPCG(1, 2))
	numbers := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(float32(r.NormFloat64())) // exact in the float32 that ONNX takes in
		}
		return v
	}
	s.Model.W, s.Model.Mean = mat.NewDense(d, d, numbers(d*d)), numbers(d)
	x, y := mat.NewDense(rows, d, numbers(rows*d)), new(mat.Dense)
	s.Model.Whiten(y, x)

	dir := t.TempDir()
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	messages, _ := mustMessages(t, s, 16, nil)
	for i, m := range messages {
		write(fmt.Sprintf("%s-%03d.arrows", header(m, "lca-part"), i), m.Value)
	}
	for _, f := range Formats() {
		write("snapshot."+string(f), exported(t, s, f))
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, m := range map[string]*mat.Dense{"x": x, "y": y} {
		if err := writeNPY(z, name, npy{"<f8", []int{rows, d}, float64Bytes(m.RawMatrix().Data)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write("x.npz", b.Bytes())
	t.Log("\n" + testtools.RunPython(t, "testdata/read_exports.py", dir))
}
