package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// BenchmarkLearners runs both learners of BenchmarkEndToEnd without Kafka, in turn and on the same rows, one thread
// each: rows per second of processor time.
//
//	go test ./internal/bench -run '^$' -bench Learners -benchtime 1x
func BenchmarkLearners(b *testing.B) {
	const rows, neighbours, blocks, rounds = 256, 256, 40, 7
	var lines []string
	for _, dim := range []int{16, 64, 256} {
		b.Run(fmt.Sprintf("d=%d", dim), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			x := clusters(rows*blocks, dim)
			path := filepath.Join(b.TempDir(), "rows")
			var raw bytes.Buffer
			if err := binary.Write(&raw, binary.NativeEndian, x); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(path, raw.Bytes(), 0o600); err != nil {
				b.Fatal(err)
			}
			minibatches := 100_000 / dim
			learn := learner(b, x, dim, rows, neighbours)
			for i := range 100 {
				learn(i % blocks)
			}
			var ours, python []float64
			for range rounds {
				began := processTime(b)
				for i := range minibatches {
					learn(i % blocks)
				}
				ours = append(ours, float64(minibatches*rows)/(processTime(b)-began).Seconds())
				r := rival(b, "alone", map[string]any{"dim": dim, "rows": rows, "neighbours": neighbours, "file": path, "messages": minibatches})
				python = append(python, float64(minibatches*rows)/r.CPU)
			}
			mine, theirs := median(ours), median(python)
			b.ReportMetric(mine/theirs, "x-python")
			b.ReportMetric(0, "ns/op")
			lines = append(lines, fmt.Sprintf("| %d | %s | %s | **%.1f** |\n", dim, thousands(mine), thousands(theirs), mine/theirs))
		})
	}
	table(b, "learners", "| d | ours: rows/cpu-s | Python's | ours / Python's |\n|---|---|---|---|\n", lines)
}

// learner returns a function that learns one block of x.
func learner(b *testing.B, x []float32, dim, rows, neighbours int) func(block int) {
	c := lca.DefaultConfig(dim)
	c.Neighbours, c.Minibatch = neighbours, rows
	l, err := lca.NewLearner(c)
	if err != nil {
		b.Fatal(err)
	}
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return func(block int) {
		if _, err := l.Learn(mat.NewDense(rows, dim, wide[block*rows*dim:][:rows*dim]), nil); err != nil {
			b.Fatal(err)
		}
	}
}
