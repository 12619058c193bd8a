//go:build unix

package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca/online"
)

// BenchmarkSizing gives the figures of the sizing table of docs/operations.md: what a row costs the
// learner and the transform, by columns d and neighbours N, and what the learner's state weighs. Half
// of the columns have two clusters each, so that half of the directions are Parzen.
//
//	go test ./internal/bench -run '^$' -bench Sizing -benchtime 100x -cpu 1
func BenchmarkSizing(b *testing.B) {
	for _, d := range []int{8, 32, 128} {
		for _, n := range []int{1000, 3000, 10000} {
			b.Run(fmt.Sprintf("d=%d/N=%d", d, n), func(b *testing.B) { sizing(b, d, n) })
		}
	}
}

func sizing(b *testing.B, d, n int) {
	const rows = 100
	before := heap()
	c := online.DefaultConfig(d)
	c.Neighbours, c.Minibatch = n, rows
	l, err := online.NewLearner(c)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, uint64(d)))
	x := mat.NewDense(rows, d, nil)
	learn := func() {
		for i := range rows {
			for k := range d {
				v := r.NormFloat64()
				if k < d/2 {
					v += float64(8 * r.IntN(2))
				}
				x.Set(i, k, v)
			}
		}
		if _, err := l.Learn(x, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	for range 3*n/rows + 100 { // until the pool is full and the start is over
		learn()
	}
	b.ResetTimer()
	began := testtools.ProcessorTime(b)
	for range b.N {
		learn()
	}
	b.ReportMetric(float64(rows*b.N)/(testtools.ProcessorTime(b)-began).Seconds(), "learnt/cpu-s")
	b.StopTimer()
	m, err := l.Model()
	if err != nil {
		b.Fatal(err)
	}
	scorer, y, score := m.NewScorer(), make([]float32, rows*d), make([]float32, rows)
	began = testtools.ProcessorTime(b)
	for range b.N {
		scorer.Score(y, score, x.RawMatrix().Data, rows)
	}
	b.ReportMetric(float64(rows*b.N)/(testtools.ProcessorTime(b)-began).Seconds(), "scored/cpu-s")
	state, err := l.AppendBinary(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(state))/1e6, "checkpoint-MB")
	b.ReportMetric(float64(heap()-before)/1e6, "heap-MB")
	runtime.KeepAlive(l)
	runtime.KeepAlive(scorer)
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
