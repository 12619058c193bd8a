//go:build unix

package lca_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
)

// BenchmarkScorers is what a transform does with a model for each of many keys: it makes a model ready, and it scores two rows by one of
// ten thousand, which do not fit into the cache.
func BenchmarkScorers(b *testing.B) {
	const d, n, many, rows = 8, 250, 10_000, 2
	x, _ := toy("five", n+rows, d-2, 1)
	fresh := make([]float32, rows*d)
	for i := range fresh {
		fresh[i] = float32(x.RawMatrix().Data[n*d+i])
	}
	c := lca.DefaultConfig()
	c.MaxIter = 2
	m, err := lca.Fit(context.Background(), x, c)
	if err != nil {
		b.Fatal(err)
	}
	var shared lca.Workspace
	b.Run("ready", func(b *testing.B) {
		s := m.NewScorerIn(&shared)
		cpuPerOp(b, func() {
			s.Renew(m)
			s.Prepare(false)
		})
	})
	b.Run("two rows", func(b *testing.B) {
		all := make([]*lca.Scorer, many)
		for i := range all {
			one := *m // a scorer's model is its own
			one.Neighbours = slices.Clone(m.Neighbours)
			all[i] = one.NewScorerIn(&shared)
			all[i].Prepare(false)
		}
		y, score, order := make([]float32, rows*d), make([]float32, rows), rand.New(rand.NewPCG(1, 1)).Perm(many)
		i := 0
		cpuPerOp(b, func() {
			all[order[i%many]].Score32(y, score, fresh, rows)
			i++
		})
	})
}

// cpuPerOp is a benchmark of processor time: other work on the machine hardly counts.
func cpuPerOp(b *testing.B, do func()) {
	before := testtools.ProcessorTime(b)
	for b.Loop() {
		do()
	}
	b.ReportMetric(float64(testtools.ProcessorTime(b)-before)/float64(b.N), "cpu-ns/op")
}
