package lca

import (
	"slices"
)

// frame is which columns are learnt, and in which units. Both follow from the running moments at
// each minibatch and are no state of their own:
//
//   - A column whose variance is below 1e-20 of its mean square is constant: what moves is rounding.
//     It is left out of C_G, C_L and W and comes back when it moves; ν alone must never carry it,
//     or a column that says nothing would weigh more than all others.
//   - s is the running standard deviation, but for sparse columns (sparse.go). ν I in units of s is ν diag(s²) in the input's, so that ν
//     is relative to the variance of each column, and columns of 1e-9 and 1e9 live together. In the
//     paper's absolute units s = 1.
//
// All matrices of the learner stay in the input's units: Cholesky factors and triangular solves
// round alike whatever the scale of a column, and a change of s then changes no state.
type frame struct {
	active []int     // indices of the columns that vary
	scale  []float64 // s, one for each active column
}

func frameOf(g *globals, unit Unit) (f frame) {
	f.set(g, unit)
	return f
}

func (f *frame) set(g *globals, unit Unit) {
	f.active, f.scale = f.active[:0], f.scale[:0]
	left := g.sparse
	for k := range g.dim {
		if !g.varies(k) {
			continue
		}
		f.active = append(f.active, k)
		s := scaleOf(g.cov[k*g.dim+k], k, &left)
		if unit == UnitAbsolute {
			s = 1
		}
		f.scale = append(f.scale, s)
	}
}

// varies says whether a column is not constant.
func (g *globals) varies(k int) bool {
	variance, mean := g.cov[k*g.dim+k], g.mean[k]
	return variance > constantVariance*(mean*mean+variance)
}

// covers says whether the columns that vary are the same as ever.
func (f frame) covers(g *globals) bool {
	left := f.active
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

// constant returns the columns that are not active.
func (f frame) constant(dim int) []int {
	var out []int
	for k := range dim {
		if _, found := slices.BinarySearch(f.active, k); !found {
			out = append(out, k)
		}
	}
	return out
}

// sub copies the active rows and columns of a dim×dim matrix to dst and adds ν s² to its diagonal.
func (f frame) sub(dst, a []float64, dim int, nu float64) []float64 {
	n := len(f.active)
	dst = resize(dst, n*n)
	for i, k := range f.active {
		from, to := a[k*dim:][:dim], dst[i*n:][:n]
		if n == dim {
			copy(to, from)
		} else {
			for j, m := range f.active {
				to[j] = from[m]
			}
		}
		to[i] += nu * f.scale[i] * f.scale[i]
	}
	return dst
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
