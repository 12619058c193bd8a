package linalg

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrNotFinite is wrapped by EigenSym when the matrix holds NaN or Inf.
var ErrNotFinite = errors.New("matrix is not finite")

// EigenSym returns the eigenvalues of the symmetric a, ascending, and its orthonormal
// eigenvectors as the columns of an n×n matrix. Signs are canonical: the component of largest
// magnitude (the first of equals) is positive. a is not changed.
//
// The matrix is scaled to norm one, reduced to tridiagonal form by blocks of reflections
// (tridiagonal.go), and diagonalised by divide and conquer (divide.go, secular.go) down to blocks for the QL
// algorithm (ql.go).
func EigenSym(a []float64, n int) (values, vectors []float64, err error) {
	check("EigenSym", a, n)
	values, vectors = make([]float64, n), make([]float64, n*n)
	norm := 0.0
	for i := range n {
		for _, v := range a[i*n:][:i+1] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, nil, fmt.Errorf("linalg: eigenvalues of order %d: %w", n, ErrNotFinite)
			}
			norm = max(norm, math.Abs(v))
		}
	}
	if norm == 0 {
		for i := range n {
			vectors[i*n+i] = 1
		}
		return values, vectors, nil
	}
	t := newTridiagonal(a, n, norm)
	t.reduce()
	w := Borrow()
	defer w.Return()
	tear := divide{d: t.d, e: t.e, rows: t.q, ld: t.ld, work: w, u: vectors, old: t.a}
	if !tear.run() {
		return nil, nil, fmt.Errorf("linalg: eigenvalues of order %d did not converge", n)
	}
	t.turnBack()
	t.sorted(values, vectors, norm)
	return values, vectors, nil
}

// sorted writes the eigenvalues, times norm, and the vectors as columns, eight at a time: a line of the cache.
func (t *tridiagonal) sorted(values, vectors []float64, norm float64) {
	order := make([]int, t.n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(t.d[a], t.d[b]), a-b) })
	for first := 0; first < t.n; first += 8 {
		some := order[first:min(first+8, t.n)]
		var signs [8]float64
		for j, from := range some {
			values[first+j] = t.d[from] * norm
			signs[j] = canonicalSign(t.q[from*t.ld:][:t.n])
		}
		for i := range t.n {
			to := vectors[i*t.n+first:]
			for j, from := range some {
				to[j] = signs[j] * t.q[from*t.ld+i]
			}
		}
	}
}

// canonicalSign is −1 when the component of largest magnitude is negative.
func canonicalSign(v []float64) float64 {
	top := 0.0
	for _, x := range v {
		if math.Abs(x) > math.Abs(top) {
			top = x
		}
	}
	return math.Copysign(1, top)
}
