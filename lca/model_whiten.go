package lca

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Whiten stores y = W(x−μ) in dst for each row of x, in float64 and subtracted first. dst may be
// empty, and may be x. Distances between rows of y are those of the learnt metric, whatever the
// model's Coordinates. It panics on wrong shapes.
func (m *Model) Whiten(dst, x *mat.Dense) {
	if _, d := x.Dims(); d != m.Dim {
		panic("lca: Whiten: want rows of the model's width")
	}
	y := shifted(x, m.Mean)
	if dst != x {
		dst.Mul(y, m.W.T())
		return
	}
	var z mat.Dense
	z.Mul(y, m.W.T())
	dst.Copy(&z)
}

// whitening returns a d×d W with WᵀW = B Bᵀ, where B holds the columns that comps asks for.
//
//	components   y = (B_L, B_G)ᵀ(x−μ), Parzen first, e ascending; rows of 0 below, so that y keeps d columns
//	symmetric    y = M^½(x−μ), M = B Bᵀ
//	aligned      symmetric too where there is no predecessor to align to
func whitening(bl, bg *mat.Dense, coords Coordinates, comps Components) *mat.Dense {
	b := bl
	if comps == ComponentsAll {
		b = parts{BL: bl, BG: bg}.joined()
	}
	d, _ := parts{BL: bl, BG: bg}.joined().Dims()
	w := mat.NewDense(d, d, nil)
	if columns(b) == 0 {
		return w
	}
	if coords == CoordinatesComponents {
		w.Slice(0, columns(b), 0, d).(*mat.Dense).Copy(b.T())
		return w
	}
	w.Copy(metricRoot(b))
	return w
}

// metricRoot returns the symmetric root M^½ of M = B Bᵀ; a constant column's weight is exactly 0. Where
// the columns of the input differ so much in scale that a symmetric root cannot hold M in float64, it
// returns the root of the metric in units of equal precision instead, R^½ diag(√M_kk): the same distances,
// in rotated coordinates.
func metricRoot(b *mat.Dense) *mat.Dense {
	d, _ := b.Dims()
	active := nonzeroRows(b)
	varying := take(b, active)
	var m mat.Dense
	m.Mul(varying, varying.T())
	root := rootOf(&m)
	if !reproduces(root, &m) {
		unit := func(k int) float64 { return math.Sqrt(m.At(k, k)) }
		correlations := mat.NewDense(len(active), len(active), nil)
		correlations.Apply(func(i, j int, v float64) float64 { return v / (unit(i) * unit(j)) }, &m)
		root = rootOf(correlations)
		root.Apply(func(_, j int, v float64) float64 { return v * unit(j) }, root)
	}
	w := mat.NewDense(d, d, nil)
	for i, k := range active {
		for j, l := range active {
			w.Set(k, l, root.At(i, j))
		}
	}
	return w
}

// nonzeroRows returns the indices of the rows of b that are not all 0.
func nonzeroRows(b *mat.Dense) []int {
	var rows []int
	for k := range b.RawMatrix().Rows {
		if floats.Norm(b.RawRowView(k), 2) > 0 {
			rows = append(rows, k)
		}
	}
	return rows
}

// rootOf returns the symmetric root of a positive semidefinite matrix.
func rootOf(m *mat.Dense) *mat.Dense {
	w, v, err := eigenSym(symmetric(m))
	if err != nil {
		panic("lca: a metric that was checked when it was learnt has no eigenvalues")
	}
	root := spectral(v, w, func(l float64) float64 { return math.Sqrt(math.Max(l, 0)) })
	return mat.DenseCopyOf(root)
}

// reproduces says whether WᵀW is M to 1e-10 of each pair of columns' own scale.
func reproduces(w, m *mat.Dense) bool {
	var got mat.Dense
	got.Mul(w.T(), w)
	d, _ := m.Dims()
	for i := range d {
		for j := range d {
			if !(math.Abs(got.At(i, j)-m.At(i, j)) <= 1e-10*math.Sqrt(m.At(i, i)*m.At(j, j))) {
				return false
			}
		}
	}
	return true
}
