package linalg

import (
	"sync"

	"gonum.org/v1/gonum/mat"
)

// spare holds workspaces between calls: buffers, not state.
var spare = sync.Pool{New: func() any { return new(Workspace) }}

// Borrow returns a workspace for one call, to be given back with Return.
func Borrow() *Workspace { return spare.Get().(*Workspace) }

// Return ends a loan.
func (w *Workspace) Return() { spare.Put(w) }

// Mul is dst ← A·B, as gonum's dst.Mul(a, b), by our own product. An empty dst is sized; otherwise it must
// have the product's size and share no memory with A or B.
func Mul(dst *mat.Dense, a, b mat.Matrix) {
	m, k := a.Dims()
	rows, n := b.Dims()
	va, okA := viewOf(a)
	vb, okB := viewOf(b)
	if !okA || !okB || rows != k {
		dst.Mul(a, b) // triangles and the like; and gonum's words for sizes that do not fit
		return
	}
	if dst.IsEmpty() {
		dst.ReuseAs(m, n)
	}
	raw := dst.RawMatrix()
	if raw.Rows != m || raw.Cols != n {
		panic(mat.ErrShape)
	}
	w := Borrow()
	defer w.Return()
	w.Product(raw.Data, raw.Stride, va, vb, m, n, k, Set)
}

// viewOf returns the view of a dense matrix or its transpose.
func viewOf(m mat.Matrix) (Matrix, bool) {
	if t, ok := m.(mat.Transpose); ok {
		v, ok := viewOf(t.Matrix)
		return v.T(), ok
	}
	d, ok := m.(*mat.Dense)
	if !ok || d.IsEmpty() {
		return Matrix{}, false
	}
	raw := d.RawMatrix()
	return Matrix{raw.Data, raw.Stride, 1}, true
}

// Resize returns a slice of length n, reusing s where it can.
func Resize[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}

// Elements returns the elements row by row, without the gaps of a slice of a larger matrix.
func Elements(m mat.Matrix) []float64 { return mat.DenseCopyOf(m).RawMatrix().Data }
