package lca_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// densityConfig is the density preset, made to take the same steps in every basis.
func densityConfig(kind lca.Kind) lca.Config {
	c := lca.DefaultConfig()
	c.Kind, c.Preset, c.MaxIter, c.Tol = kind, lca.PresetDensity, 30, -1
	return c
}

// TestScoreIsAffine holds that with ν C_G no score changes with the basis, for every ν, though one direction of the new
// basis is a thousandth as wide as the others. What is left is the ridge of rounding: 1e-12 of a column's variance is up to
// 1e-5 of the thin direction's, and a score is off by up to that share of ½δ, whose mean over fresh rows is below 10.
func TestScoreIsAffine(t *testing.T) {
	two, _ := toy("two", 200, 3, 1)
	y, a, _ := mixed(two, 2)
	last, d := a.Dims()
	thin := a.RawRowView(last - 1) // the last column becomes the first, except for a thousandth
	for k := range d {
		thin[k] = a.At(0, k) + 1e-3*thin[k]
	}
	y.Mul(two, a.T())
	logDet, _ := mat.LogDet(a)
	train, fresh := 150, 50
	part := func(x *mat.Dense, from, n int) *mat.Dense { return mat.DenseCopyOf(x.Slice(from, from+n, 0, d)) }
	for _, kind := range []lca.Kind{lca.KindGaussian, lca.KindLCA, lca.KindLCAGauss, lca.KindLCAGaussRed} {
		for _, nu := range []float64{lca.Auto, 0, 1} {
			t.Run(caseName(kind, "/ν=", nu), func(t *testing.T) {
				c := densityConfig(kind)
				c.Nu, c.NuGaussian = nu, nu
				if nu == 1 {
					c.Kernel = lca.KernelStudent
				}
				m, n := fit(t, part(two, 0, train), c), fit(t, part(y, 0, train), c)
				nearly(t, "leave-one-out NLL", n.Info.NLL, m.Info.NLL+logDet, 1e-4)
				nearly(t, "NLL of fresh rows", n.TestNLL(part(y, train, fresh), part(y, 0, train)),
					m.TestNLL(part(two, train, fresh), part(two, 0, train))+logDet, 1e-4)
			})
		}
	}
	c := densityConfig(lca.KindLCAGauss)
	c.NuUnit = lca.UnitRelative
	m, n := fit(t, part(two, 0, train), c), fit(t, part(y, 0, train), c)
	if off := n.Info.NLL - m.Info.NLL - logDet; off < 0.1 {
		t.Errorf("with ν of each column the NLL changes by %g only: this basis cannot tell the units apart", off)
	}
}

// TestCollinearColumns holds that where columns are copies or sums of others the model is not worse than a single
// Gaussian of the same C_G.
func TestCollinearColumns(t *testing.T) {
	five, _ := toy("five", 300, 2, 3)
	n, d := five.Dims()
	r := rand.New(rand.NewPCG(7, 3))
	for name, other := range map[string]func(row []float64) float64{
		"copy":         func(row []float64) float64 { return row[0] },
		"sum":          func(row []float64) float64 { return row[0] - 2*row[1] + row[3] },
		"nearly a sum": func(row []float64) float64 { return row[0] + row[2] + 1e-3*r.NormFloat64() },
	} {
		t.Run(name, func(t *testing.T) {
			x := mat.NewDense(n, d+1, nil)
			for i := range n {
				copy(x.RawRowView(i), five.RawRowView(i))
				x.Set(i, d, other(five.RawRowView(i)))
			}
			m := fit(t, x, densityConfig(lca.KindLCAGauss))
			if m.Info.NLL > m.Info.GaussianNLL {
				t.Errorf("%.4f nats per row, a single Gaussian %.4f", m.Info.NLL, m.Info.GaussianNLL)
			}
		})
	}
}

// TestBrokenRelation holds that a row whose sum is .3 off, which each column alone allows, scores above every row that
// keeps the relation.
func TestBrokenRelation(t *testing.T) {
	const rows, fresh, d = 500, 200, 5
	r := rand.New(rand.NewPCG(8, 3))
	x := mat.NewDense(rows+fresh, d, nil)
	for i := range rows + fresh {
		for k := range d - 1 {
			x.Set(i, k, r.NormFloat64())
			x.Set(i, d-1, x.At(i, d-1)+x.At(i, k))
		}
		x.Set(i, d-1, x.At(i, d-1)+0.01*r.NormFloat64())
	}
	m := fit(t, mat.DenseCopyOf(x.Slice(0, rows, 0, d)), densityConfig(lca.KindLCAGauss))
	kept := mat.DenseCopyOf(x.Slice(rows, rows+fresh, 0, d))
	broken := mat.DenseCopyOf(kept)
	for i := range fresh {
		broken.Set(i, i%d, broken.At(i, i%d)+0.3)
	}
	usual, odd := m.LogDensity(nil, kept), m.LogDensity(nil, broken)
	for i, p := range odd {
		for _, q := range usual {
			if p >= q {
				t.Fatalf("row %d with a broken relation has %.2f nats, a row that keeps it %.2f", i, -p, -q)
			}
		}
	}
}
