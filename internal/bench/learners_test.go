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

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca/online"
)

// BenchmarkLearners runs the learners of BenchmarkEndToEnd without Kafka, in turn and on the same rows, one thread
// each: rows per second of processor time.
//
//	go test ./internal/bench -run '^$' -bench Learners -benchtime 1x
func BenchmarkLearners(b *testing.B) {
	const rows, neighbours, rounds = 256, 256, 7
	var lines []string
	for _, dim := range []int{16, 64, 256} {
		b.Run(fmt.Sprintf("d=%d", dim), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			minibatches := 100_000 / dim
			x := clusters(rows*minibatches, dim) // no row twice within a pool's memory: it would be a near copy
			path := filepath.Join(b.TempDir(), "rows")
			var raw bytes.Buffer
			if err := binary.Write(&raw, binary.NativeEndian, x); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(path, raw.Bytes(), 0o600); err != nil {
				b.Fatal(err)
			}
			learn := learner(b, x, dim, rows, neighbours)
			for i := range 100 {
				learn(i)
			}
			var ours, python, bare []float64
			for range rounds {
				began := testtools.ProcessorTime(b)
				for i := range minibatches {
					learn(i)
				}
				ours = append(ours, float64(minibatches*rows)/(testtools.ProcessorTime(b)-began).Seconds())
				for _, guarded := range []bool{true, false} {
					r := rival(b, "alone", map[string]any{"dim": dim, "rows": rows, "neighbours": neighbours, "file": path, "messages": minibatches, "guarded": guarded})
					if rate := float64(minibatches*rows) / r.CPU; guarded {
						python = append(python, rate)
					} else {
						bare = append(bare, rate)
					}
				}
			}
			mine, theirs, less := median(ours), median(python), median(bare)
			b.ReportMetric(mine/theirs, "x-python")
			b.ReportMetric(mine/less, "x-bare")
			b.ReportMetric(0, "ns/op")
			lines = append(lines, fmt.Sprintf("| %d | %s | %s | %s | **%.1f** | %.1f |\n", dim, thousands(mine), thousands(theirs), thousands(less), mine/theirs, mine/less))
		})
	}
	table(b, "learners", "| d | ours: rows/cpu-s | Python's | Python's, bare | ours / Python's | ours / bare |\n|---|---|---|---|---|---|\n", lines)
}

// learner returns a function that learns one block of x.
func learner(b *testing.B, x []float32, dim, rows, neighbours int) func(block int) {
	c := online.DefaultConfig(dim)
	c.Neighbours, c.Minibatch = neighbours, rows
	l, err := online.NewLearner(c)
	if err != nil {
		b.Fatal(err)
	}
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return func(block int) {
		if _, err := l.Learn(mat.NewDense(rows, dim, wide[block*rows*dim:][:rows*dim]), nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}
