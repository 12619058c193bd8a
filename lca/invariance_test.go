package lca_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

var log2Pi = math.Log(2 * math.Pi)

// TestAffine holds that a change of basis x → A x + b changes nothing but the coordinates, when nothing
// is regularised: C_L → A C_L Aᵀ, the same e, and a density that log|det A| is taken from.
func TestAffine(t *testing.T) {
	two, _ := toy("two", 150, 3, 1)
	y, a, _ := mixed(two, 2)
	logDet, _ := mat.LogDet(a)
	for _, kind := range []lca.Kind{lca.KindLCA, lca.KindLCAGauss, lca.KindLCAGaussRed} {
		t.Run(kind.String(), func(t *testing.T) {
			c := paperConfig(kind, 0)
			c.MaxIter, c.Tol = 30, -1
			m, n := fit(t, two, c), fit(t, y, c)
			var moved mat.Dense
			moved.Product(a, m.CL, a.T())
			// Thirty steps multiply the rounding of the change of basis.
			near(t, "C_L", n.CL, &moved, 1e-7)
			near(t, "e", mat.NewVecDense(n.Dim, n.Ratio), mat.NewVecDense(m.Dim, m.Ratio), 1e-7)
			nearly(t, "NLL", n.Info.NLL, m.Info.NLL+logDet, 1e-8)
		})
	}
}

// TestRelativeIsFreeOfUnits holds that with relative ν the units of the columns do not matter.
func TestRelativeIsFreeOfUnits(t *testing.T) {
	two, _ := toy("two", 150, 3, 1)
	units := []float64{1e-3, 1, 60, 1e6, 0.5}
	y := mat.NewDense(150, 5, nil)
	y.Apply(func(_, k int, v float64) float64 { return v * units[k] }, two)
	c := lca.DefaultConfig()
	c.MaxIter = 30
	m, n := fit(t, two, c), fit(t, y, c)
	near(t, "e", mat.NewVecDense(5, n.Ratio), mat.NewVecDense(5, m.Ratio), 1e-8)
	shift := 0.0
	for _, u := range units {
		shift += math.Log(u)
	}
	nearly(t, "NLL", n.Info.NLL, m.Info.NLL+shift, 1e-8)
}

// TestPermutation holds that the order of the rows does not matter.
func TestPermutation(t *testing.T) {
	x, _ := toy("five", 300, 2, 2)
	shuffled := mat.DenseCopyOf(x)
	for i, j := range rand.New(rand.NewPCG(1, 1)).Perm(300) {
		shuffled.SetRow(i, x.RawRowView(j))
	}
	c := paperConfig(lca.KindLCAGauss, 0.01)
	c.MaxIter, c.Tol = 20, -1
	m, n := fit(t, x, c), fit(t, shuffled, c)
	near(t, "C_L", n.CL, m.CL, 1e-9)
	nearly(t, "NLL", n.Info.NLL, m.Info.NLL, 1e-10)
}

// TestDensityIntegratesToOne sums exp(LogDensity) over a fine grid. The kernels are smooth on the
// scale of the grid, so the sum is exact to rounding except for the tails beyond it and the neighbours'
// float32.
func TestDensityIntegratesToOne(t *testing.T) {
	circles, _ := toy("circles", 40, 0, 3)
	skewed, _, _ := mixed(circles, 3)
	two, _ := toy("two", 60, 0, 4)
	for name, x := range map[string]*mat.Dense{"circles": skewed, "two": two} {
		for _, kind := range []lca.Kind{lca.KindLCA, lca.KindLCAGauss, lca.KindLCAGaussRed, lca.KindGaussian} {
			for _, metric := range metrics {
				t.Run(caseName(name, "/", kind, "/", metric), func(t *testing.T) {
					c := paperConfig(kind, 0.02)
					c.Metric = metric
					if metric == lca.MetricLowRank {
						c.Rank = 1
					}
					m := fit(t, x, c)
					// The grid's axes are those of C_G, so that it covers seven standard deviations evenly.
					var chol mat.Cholesky
					if !chol.Factorize(m.CG) {
						t.Fatal("C_G is singular")
					}
					var l mat.TriDense
					chol.LTo(&l)
					const side, reach = 140, 7.
					grid := mat.NewDense(side*side, 2, nil)
					for i := range side * side {
						u := mat.NewVecDense(2, []float64{reach * (2*float64(i%side)/side - 1), reach * (2*float64(i/side)/side - 1)})
						u.MulVec(&l, u)
						grid.SetRow(i, []float64{u.AtVec(0) + m.Mean[0], u.AtVec(1) + m.Mean[1]})
					}
					sum := 0.0
					for _, p := range m.LogDensity(nil, grid) {
						sum += math.Exp(p)
					}
					nearly(t, "integral", sum*l.At(0, 0)*l.At(1, 1)*math.Pow(2*reach/side, 2), 1, 1e-6)
				})
			}
		}
	}
}

// TestWhiten holds that y = W(x−μ) has the distances of the metric B Bᵀ in every coordinate system, that
// "components" are (B_L, B_G)ᵀ(x−μ), and that "symmetric" is the symmetric root.
func TestWhiten(t *testing.T) {
	two, _ := toy("two", 120, 3, 5)
	x, _, _ := mixed(two, 5)
	for _, comps := range lca.AllComponents() {
		for _, coords := range []lca.Coordinates{lca.CoordinatesAligned, lca.CoordinatesComponents, lca.CoordinatesSymmetric} {
			t.Run(caseName(comps, "/", coords), func(t *testing.T) {
				c := paperConfig(lca.KindLCAGaussRed, 0.01)
				c.Coordinates, c.Components = coords, comps
				m := fit(t, x, c)
				metric := precision(m.BL, m.Dim)
				first := 1.0 // weight of the first direction
				switch comps {
				case lca.ComponentsAll:
					metric.Add(metric, precision(m.BG, m.Dim))
				case lca.ComponentsParzen: // it is that of B_L
				case lca.ComponentsWeighted: // the directions of B_G have e ≥ 1, and so no weight
					first = math.Sqrt(1 - m.Ratio[0])
					weighted := mat.DenseCopyOf(m.BL)
					weighted.Apply(func(_, k int, v float64) float64 { return v * math.Sqrt(1-m.Ratio[k]) }, weighted)
					metric = precision(weighted, m.Dim)
				}
				var got mat.Dense
				got.Mul(m.W.T(), m.W)
				near(t, "WᵀW", &got, metric, 1e-10)
				if coords == lca.CoordinatesSymmetric {
					near(t, "W", m.W, m.W.T(), 1e-12)
				}
				var y mat.Dense
				m.Whiten(&y, x)
				if coords == lca.CoordinatesComponents {
					want := 0.0
					for k := range m.Dim {
						want += first * m.BL.At(k, 0) * (x.At(7, k) - m.Mean[k])
					}
					nearly(t, "first component of row 7", y.At(7, 0), want, 1e-12)
				}
				inPlace := mat.DenseCopyOf(x)
				m.Whiten(inPlace, inPlace)
				near(t, "Whiten in place", inPlace, &y, 0)
			})
		}
	}
}
