package linalg

import (
	"errors"
	"fmt"
	"math"
	"sort"
)

// ErrNotFinite is wrapped by EigenSym when the matrix holds NaN or Inf.
var ErrNotFinite = errors.New("matrix is not finite")

// EigenSym returns the eigenvalues of the symmetric a, ascending, and its orthonormal
// eigenvectors as the columns of an n×n matrix. Signs are canonical: the component of largest
// magnitude (the first of equals) is positive. a is not changed.
//
// The matrix is scaled to norm one, reduced to tridiagonal form by blocks of reflections
// (tridiagonal.go), and diagonalised by the QL algorithm with its rotations recorded and
// applied to strips of the vectors (ql.go).
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
	t.accumulate()
	q := ql{d: t.d, e: t.e, rows: t.q, ld: t.ld}
	if !q.run() {
		return nil, nil, fmt.Errorf("linalg: eigenvalues of order %d did not converge", n)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return t.d[order[i]] < t.d[order[j]] })
	for j, from := range order {
		values[j] = t.d[from] * norm
		row := t.q[from*t.ld:][:n]
		sign := canonicalSign(row)
		for i, v := range row {
			vectors[i*n+j] = sign * v
		}
	}
	return values, vectors, nil
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
