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
	values, vectors = make([]float64, n), make([]float64, n*n)
	w := Borrow()
	defer w.Return()
	if err := w.EigenSym(values, vectors, a, n); err != nil {
		return nil, nil, err
	}
	return values, vectors, nil
}

// EigenSym is the function of that name, into values (n) and vectors (n×n) and with the workspace's own
// buffers.
func (w *Workspace) EigenSym(values, vectors, a []float64, n int) error {
	check("EigenSym", a, n)
	values, vectors = values[:n], vectors[:n*n]
	norm := 0.0
	for i := range n {
		for _, v := range a[i*n:][:i+1] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("linalg: eigenvalues of order %d: %w", n, ErrNotFinite)
			}
			norm = max(norm, math.Abs(v))
		}
	}
	if norm == 0 {
		clear(values)
		clear(vectors)
		for i := range n {
			vectors[i*n+i] = 1
		}
		return nil
	}
	t, tear := &w.tridiagonal, &w.divide
	t.set(a, n, norm)
	t.reduce()
	tear.d, tear.e, tear.rows, tear.ld = t.d, t.e, t.q, t.ld
	tear.work, tear.u, tear.old = w, vectors, t.a
	if !tear.run() {
		return fmt.Errorf("linalg: eigenvalues of order %d did not converge", n)
	}
	t.turnBack()
	t.sorted(values, vectors, norm)
	return nil
}

// sorted writes the eigenvalues, times norm, and the vectors as columns, eight at a time: a line of the cache.
func (t *tridiagonal) sorted(values, vectors []float64, norm float64) {
	t.order = t.order[:0]
	for i := range t.n {
		t.order = append(t.order, i)
	}
	order := t.order
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
