package clustering

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// graph is a sparse symmetric matrix: row i has weight[i][e] in column to[i][e].
type graph struct {
	to     [][]int
	weight [][]float64
}

const (
	spareVectors = 8    // beyond the k wanted: they quicken the iteration
	mostRounds   = 60   // each applies the matrix polynomial of filter
	filterSteps  = 8    // degree of the Chebyshev filter
	filterCut    = 0.7  // eigenvalues of [−1, cut] are damped
	settled      = 1e-7 // change of the Ritz values at which the iteration ends
)

// leading returns the eigenvectors of the k largest eigenvalues by subspace iteration with a
// Chebyshev filter (Saad, Numerical Methods for Large Eigenvalue Problems, chapter 5). Unlike a
// single Krylov sequence it also finds eigenvalues that are there several times: a graph of several
// components has the eigenvalue 1 for each.
func leading(g *graph, n, k int, rng *rand.Rand) *mat.Dense {
	m := min(k+spareVectors, n)
	v := mat.NewDense(n, m, nil)
	for i := range n {
		for j := range m {
			v.Set(i, j, rng.NormFloat64())
		}
	}
	last := make([]float64, m)
	for range mostRounds {
		v = orthonormal(filter(g, v))
		var projected mat.Dense
		projected.Mul(v.T(), g.times(v))
		var eig mat.EigenSym
		if !eig.Factorize(symmetrised(&projected), true) {
			break // not reached for a finite matrix; the subspace so far is still a sound answer
		}
		var rotation mat.Dense
		eig.VectorsTo(&rotation)
		v = descending(v, &rotation)
		change := 0.0
		for j, e := range eig.Values(nil)[m-k:] {
			change = math.Max(change, math.Abs(e-last[j]))
			last[j] = e
		}
		if change < settled {
			break
		}
	}
	return mat.DenseCopyOf(v.Slice(0, n, 0, k))
}

// filter applies the Chebyshev polynomial that is small on [−1, filterCut] and grows beyond.
func filter(g *graph, v *mat.Dense) *mat.Dense {
	const centre, half = (filterCut - 1) / 2, (filterCut + 1) / 2
	shifted := func(x *mat.Dense) *mat.Dense {
		y := g.times(x)
		var c mat.Dense
		c.Scale(centre, x)
		y.Sub(y, &c)
		y.Scale(1/half, y)
		return y
	}
	before, now := v, shifted(v)
	for range filterSteps - 1 {
		next := shifted(now)
		next.Scale(2, next)
		next.Sub(next, before)
		before, now = now, next
	}
	return now
}

func (g *graph) times(v *mat.Dense) *mat.Dense {
	n, m := v.Dims()
	out := mat.NewDense(n, m, nil)
	for i := range n {
		row := out.RawRowView(i)
		for e, j := range g.to[i] {
			for c, x := range v.RawRowView(j) {
				row[c] += g.weight[i][e] * x
			}
		}
	}
	return out
}

// orthonormal is Gram–Schmidt, done twice, which is enough (Giraud, Langou and Rozložník, 2005).
func orthonormal(v *mat.Dense) *mat.Dense {
	var t mat.Dense
	t.CloneFrom(v.T()) // rows are contiguous, columns are not
	m, _ := t.Dims()
	for range 2 {
		for i := range m {
			row := t.RawRowView(i)
			for j := range i {
				done := t.RawRowView(j)
				dot := 0.0
				for c, x := range row {
					dot += x * done[c]
				}
				for c := range row {
					row[c] -= dot * done[c]
				}
			}
			normalise(row)
		}
	}
	return mat.DenseCopyOf(t.T())
}

func symmetrised(a *mat.Dense) *mat.SymDense {
	n, _ := a.Dims()
	s := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			s.SetSym(i, j, (a.At(i, j)+a.At(j, i))/2)
		}
	}
	return s
}

// descending returns v times the columns of rotation, last first.
func descending(v, rotation *mat.Dense) *mat.Dense {
	n, m := v.Dims()
	flipped := mat.NewDense(m, m, nil)
	for i := range m {
		for j := range m {
			flipped.Set(i, j, rotation.At(i, m-1-j))
		}
	}
	out := mat.NewDense(n, m, nil)
	out.Mul(v, flipped)
	return out
}
