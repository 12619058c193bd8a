package lca

import (
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/prop1"
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
func whitening(parts prop1.Parts, coords Coordinates, comps Components) *mat.Dense {
	var b *mat.Dense
	switch comps {
	case ComponentsAll:
		b = parts.Joined()
	case ComponentsParzen:
		b = parts.BL
	case ComponentsWeighted:
		b = parts.Weighted()
	}
	d, _ := parts.Joined().Dims()
	w := mat.NewDense(d, d, nil)
	if prop1.Columns(b) == 0 || len(prop1.NonzeroRows(b)) == 0 {
		return w
	}
	if coords == CoordinatesComponents {
		w.Slice(0, prop1.Columns(b), 0, d).(*mat.Dense).Copy(b.T())
		return w
	}
	w.Copy(prop1.MetricRoot(b))
	return w
}
