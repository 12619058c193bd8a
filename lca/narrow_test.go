package lca_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestNarrowIsTheWholeFit holds a fit of few numbers to the plain loops, which form every matrix: the same model from each family, unit,
// kernel and set of coordinates, with a constant column and near copies in the data.
func TestNarrowIsTheWholeFit(t *testing.T) {
	five, _ := toy("five", 150, 78, 11)
	x, _, _ := mixed(five, 11)
	for i := range 150 {
		x.Set(i, 40, 7)
	}
	for i := range 5 { // near copies
		x.SetRow(100+i, x.RawRowView(i))
		x.Set(100+i, 3, x.At(i, 3)+1e-6)
	}
	for _, metric := range []lca.Metric{lca.MetricDiagonal, lca.MetricIsotropic, lca.MetricLowRank} {
		for _, unit := range []lca.Unit{lca.UnitAbsolute, lca.UnitRelative, lca.UnitCovariance} {
			for _, kernel := range []lca.Kernel{lca.KernelGaussian, lca.KernelStudent} {
				for _, coordinates := range []lca.Coordinates{lca.CoordinatesSymmetric, lca.CoordinatesComponents} {
					t.Run(caseName(metric, "/", unit, "/", kernel, "/", coordinates), func(t *testing.T) {
						c := paperConfig(lca.KindLCA, 0.1)
						c.Metric, c.Rank, c.NuUnit, c.Kernel, c.MaxIter, c.Tol, c.NearCopies = metric, 3, unit, kernel, 6, -1, true
						c.NuGaussian, c.Coordinates = 0.05, coordinates
						narrow := fit(t, x, c)
						c.Precision = 0
						sameModel(t, narrow, fit(t, x, c))
					})
				}
			}
		}
	}
}

func sameModel(t *testing.T, got, want *lca.Model) {
	t.Helper()
	const tol = 1e-8
	near(t, "C_G", got.CG, want.CG, tol)
	near(t, "C_L", got.CL, want.CL, tol)
	near(t, "B_L B_Lᵀ", precision(got.BL, got.Dim), precision(want.BL, got.Dim), tol)
	near(t, "e", mat.NewVecDense(len(got.Ratio), got.Ratio), mat.NewVecDense(len(want.Ratio), want.Ratio), tol)
	if got.Coordinates == lca.CoordinatesSymmetric {
		near(t, "W", got.W, want.W, tol)
	} else { // the signs of its rows are not given
		var g, w mat.Dense
		g.Apply(func(_, _ int, v float64) float64 { return math.Abs(v) }, got.W)
		w.Apply(func(_, _ int, v float64) float64 { return math.Abs(v) }, want.W)
		near(t, "|W|", &g, &w, 1e-5) // eigenvalues near each other turn their vectors
	}
	nearly(t, "NLL", got.Info.NLL, want.Info.NLL, tol*math.Abs(want.Info.NLL))
	nearly(t, "NLL of a single Gaussian", got.Info.GaussianNLL, want.Info.GaussianNLL, tol*math.Abs(want.Info.GaussianNLL))
	nearly(t, "effective neighbours", got.Info.Effective, want.Info.Effective, tol*want.Info.Effective)
	if got.Info.Copies != want.Info.Copies || got.Info.Copies == 0 {
		t.Errorf("%d near copies, want %d", got.Info.Copies, want.Info.Copies)
	}
}
