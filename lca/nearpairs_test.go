package lca_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestNearPairsAreAllThatCount holds a diagonal fit that computes no more than the near pairs after its first steps to the plain loops, which compute all,
// with near copies and rows that are near in time.
func TestNearPairsAreAllThatCount(t *testing.T) {
	const rows, columns = 400, 120
	r := rand.New(rand.NewPCG(1, 2))
	centres, x := mat.NewDense(20, columns, nil), mat.NewDense(rows, columns, nil)
	centres.Apply(func(int, int, float64) float64 { return 3 * r.NormFloat64() }, centres)
	x.Apply(func(i, k int, _ float64) float64 { return centres.At(i%20, k) + r.NormFloat64()*(1+float64(k%3)/3) }, x)
	for i := range 5 {
		x.SetRow(100+i, x.RawRowView(i))
		x.Set(100+i, 3, x.At(i, 3)+1e-6)
	}
	for _, near := range []func(int) []int32{nil, func(row int) []int32 { return []int32{int32((row + 20) % rows)} }} {
		c := paperConfig(lca.KindLCA, 0.1)
		c.Metric, c.NuUnit, c.MaxIter, c.Tol, c.NearCopies, c.NuGaussian, c.Near = lca.MetricDiagonal, lca.UnitRelative, 8, -1, true, 0.05, near
		c.Coordinates = lca.CoordinatesSymmetric
		spared := lca.SparedSteps()
		few := fit(t, x, c)
		if lca.SparedSteps() == spared {
			t.Error("no step was spared the far pairs")
		}
		c.Precision = 0
		sameModel(t, few, fit(t, x, c))
	}
}
