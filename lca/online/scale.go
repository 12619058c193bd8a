package online

import (
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// The columns that are learnt and their units follow from the running moments at each minibatch, and are
// no state of their own:
//
//   - A column whose variance is below 1e-20 of its mean square is constant: what moves is rounding.
//     It is left out of C_G, C_L and W and comes back when it moves; ν alone must never carry it,
//     or a column that says nothing would weigh more than all others.
//   - s is the running standard deviation, except for sparse columns (prop1.Sparse).
//
// All matrices of the learner stay in the input's units: Cholesky factors and triangular solves
// round alike whatever the scale of a column, and a change of s then changes no state.

// A column is constant if its variance is below this share of its mean square: running moments carry their
// own rounding.
const constantVariance = 1e-20

// columnScale returns the columns that vary, with their units.
func (g *runningMoments) columnScale(unit lca.Unit) (f prop1.ColumnScale) {
	g.scaleInto(&f, unit)
	return f
}

// scaleInto is columnScale into memory that is there.
func (g *runningMoments) scaleInto(f *prop1.ColumnScale, unit lca.Unit) {
	f.Active, f.Scale = f.Active[:0], f.Scale[:0]
	left := g.sparse
	for k := range g.dim {
		if !g.varies(k) {
			continue
		}
		f.Active = append(f.Active, k)
		s := prop1.ScaleOf(g.cov[k*g.dim+k], k, &left)
		if unit == lca.UnitAbsolute {
			s = 1
		}
		f.Scale = append(f.Scale, s)
	}
}

// varies reports whether a column is not constant.
func (g *runningMoments) varies(k int) bool {
	variance, mean := g.cov[k*g.dim+k], g.mean[k]
	return variance > constantVariance*(mean*mean+variance)
}

// vary reports whether exactly the active columns vary.
func (g *runningMoments) vary(active []int) bool {
	left := active
	for k := range g.dim {
		known := len(left) > 0 && left[0] == k
		if g.varies(k) != known {
			return false
		}
		if known {
			left = left[1:]
		}
	}
	return true
}

// enter gives the columns that became active a place in C_L, and takes those that fell silent out:
// a new column starts from its variance in C_G, on its own, which keeps C_L positive definite.
func enter(cl []float64, dim int, was, now []int, cov []float64) {
	for k := range dim {
		_, before := slices.BinarySearch(was, k)
		_, after := slices.BinarySearch(now, k)
		if before == after {
			continue
		}
		for j := range dim {
			cl[k*dim+j], cl[j*dim+k] = 0, 0
		}
		if after {
			cl[k*dim+k] = cov[k*dim+k]
		}
	}
}
