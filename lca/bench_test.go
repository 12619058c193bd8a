package lca_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// BenchmarkFit is ten EM steps of LCA-Gauss on 3000 × 256: twenty clusters in 40 of the dimensions.
// `make paper ONLY=speed` has a fit to convergence next to numpy's.
func BenchmarkFit(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	centres := mat.NewDense(20, 40, nil)
	centres.Apply(func(_, _ int, _ float64) float64 { return 3 * r.NormFloat64() }, centres)
	x := mat.NewDense(3000, 256, nil)
	for i := range 3000 {
		row, cluster := x.RawRowView(i), r.IntN(20)
		for k := range row {
			row[k] = r.NormFloat64()
			if k < 40 {
				row[k] += centres.At(cluster, k)
			}
		}
	}
	for _, a := range arithmetics[1:] {
		b.Run(a.name, func(b *testing.B) {
			c := paperConfig(lca.KindLCAGauss, 0.05)
			c.MaxIter, c.Tol, c.Precision = 10, -1, a.precision
			for b.Loop() {
				if _, err := lca.Fit(context.Background(), x, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
