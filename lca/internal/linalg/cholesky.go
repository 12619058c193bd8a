package linalg

import (
	"fmt"
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// triangleBlock is the largest order of triangles that are factored and inverted by plain loops. Larger ones are cut
// in two, so that almost all of the work is products of large blocks.
const triangleBlock = 16

// half is where a triangle of order n is cut.
func half(n int) int {
	const width = kernel.TileWidth
	return (n/2 + width - 1) / width * width
}

// CholeskyLower overwrites the symmetric a by its lower factor L, a = L Lᵀ, with zeros above the
// diagonal. On error a is left as it was.
func (w *Workspace) CholeskyLower(a []float64, n int) error {
	check("CholeskyLower", a, n)
	w.left = Resize(w.left, n*n)
	for i := range n {
		copy(w.left[i*n:][:i+1], a[i*n:])
	}
	if bad := w.cholesky(w.left, n, n); bad >= 0 {
		return fmt.Errorf("linalg: Cholesky factor of order %d, pivot %d: %w", n, bad, ErrNotPositiveDefinite)
	}
	for i := range n {
		clear(a[i*n+copy(a[i*n:], w.left[i*n:][:i+1]):][:n-i-1])
	}
	return nil
}

// cholesky factors the lower triangle of a, of stride ld; above it are numbers without meaning.
//
//	L₂₁ = A₂₁ L₁₁⁻ᵀ,   L₂₂ L₂₂ᵀ = A₂₂ − L₂₁ L₂₁ᵀ
//
// It returns the first pivot that is not a positive number, or −1.
func (w *Workspace) cholesky(a []float64, ld, n int) (bad int) {
	if n <= triangleBlock {
		return choleskyBlock(a, ld, n)
	}
	h := half(n)
	if bad = w.cholesky(a, ld, h); bad >= 0 {
		return bad
	}
	below := Matrix{a[h*ld:], ld, 1}
	w.SolveRight(Matrix{a, ld, 1}, below.Data, ld, h, n-h)
	w.product(a[h*ld+h:], ld, below, below.T(), n-h, n-h, h, Subtract, true)
	if bad = w.cholesky(a[h*ld+h:], ld, n-h); bad >= 0 {
		bad += h
	}
	return bad
}

// choleskyBlock factors the lower triangle of a block by loops. It returns the first pivot that is not a positive
// number, or −1.
func choleskyBlock(a []float64, ld, n int) (bad int) {
	for i := range n {
		row := a[i*ld:][:n]
		for j := range i {
			other := a[j*ld:][:j+1]
			row[j] = (row[j] - dot(row[:j], other[:j])) / other[j]
		}
		pivot := row[i] - dot(row[:i], row[:i])
		if !(pivot > 0) || math.IsInf(pivot, 1) {
			return i
		}
		row[i] = math.Sqrt(pivot)
	}
	return -1
}

// dot sums in four chains, by index mod 4.
func dot(x, y []float64) float64 {
	var s [4]float64
	y = y[:len(x)]
	for ; len(x) >= 4; x, y = x[4:], y[4:] {
		s[0], s[1] = math.FMA(x[0], y[0], s[0]), math.FMA(x[1], y[1], s[1])
		s[2], s[3] = math.FMA(x[2], y[2], s[2]), math.FMA(x[3], y[3], s[3])
	}
	for k, v := range x {
		s[k] = math.FMA(v, y[k], s[k])
	}
	return (s[0] + s[2]) + (s[1] + s[3])
}

// invertBlock writes the inverse of the lower triangle of l into dst, zeros above.
func invertBlock(dst []float64, ldd int, l []float64, ldl, n int) {
	for i := range n {
		row, to := l[i*ldl:][:i+1], dst[i*ldd:][:n]
		inv := 1 / row[i]
		clear(to)
		// Row i is −(1/l_ii) Σ_{k<i} l_ik · (row k of the inverse).
		for k, v := range row[:i] {
			for j, x := range dst[k*ldd:][:k+1] {
				to[j] = math.FMA(v, x, to[j])
			}
		}
		for j := range to[:i] {
			to[j] *= -inv
		}
		to[i] = inv
	}
}

// invertLower inverts the lower triangular l of stride ld, without a zero on its diagonal: both halves on the diagonal, and
// below them −L₂₂⁻¹ L₂₁ L₁₁⁻¹.
func (w *Workspace) invertLower(l []float64, ld, n int) {
	if n <= triangleBlock {
		var inverse [triangleBlock * triangleBlock]float64
		invertBlock(inverse[:], n, l, ld, n)
		for i := range n {
			copy(l[i*ld:][:n], inverse[i*n:])
		}
		return
	}
	h := half(n)
	w.invertLower(l, ld, h)
	w.invertLower(l[h*ld+h:], ld, n-h)
	below := l[h*ld:]
	w.left = Resize(w.left, (n-h)*h)
	w.Product(w.left, h, Matrix{below, ld, 1}, Matrix{l, ld, 1}, n-h, h, h, Set)
	for i := range n - h {
		clear(below[i*ld:][:h])
	}
	w.Product(below, ld, Matrix{below[h:], ld, 1}, Dense(w.left, h), n-h, h, n-h, Subtract)
}

// SolveLeft is B ← L⁻¹ B for the lower triangular L of order n and the n×cols matrix B of stride ldb.
//
// The triangle is cut in two: the one half of B that L₂₁ does not touch is solved, what it contributes to the
// other is one product, and small triangles are inverted. The other two work alike.
func (w *Workspace) SolveLeft(l Matrix, b []float64, ldb, n, cols int) {
	if n <= triangleBlock {
		w.fromLeft(w.invert(l, n), b, ldb, n, cols)
		return
	}
	h := half(n)
	w.SolveLeft(l, b, ldb, h, cols)
	w.Product(b[h*ldb:], ldb, l.at(h, 0), Matrix{b, ldb, 1}, n-h, cols, h, Subtract)
	w.SolveLeft(l.at(h, h), b[h*ldb:], ldb, n-h, cols)
}

// SolveLeftTransposed is B ← L⁻ᵀ B.
func (w *Workspace) SolveLeftTransposed(l Matrix, b []float64, ldb, n, cols int) {
	if n <= triangleBlock {
		w.fromLeft(w.invert(l, n).T(), b, ldb, n, cols)
		return
	}
	h := half(n)
	w.SolveLeftTransposed(l.at(h, h), b[h*ldb:], ldb, n-h, cols)
	w.Product(b, ldb, l.at(h, 0).T(), Matrix{b, ldb, 1}.at(h, 0), h, cols, n-h, Subtract)
	w.SolveLeftTransposed(l, b, ldb, h, cols)
}

// SolveRight is B ← B L⁻ᵀ for the rows×n matrix B of stride ldb.
func (w *Workspace) SolveRight(l Matrix, b []float64, ldb, n, rows int) {
	if n <= triangleBlock {
		inverse := w.invert(l, n)
		w.copied = Resize(w.copied, rows*n)
		for i := range rows {
			copy(w.copied[i*n:][:n], b[i*ldb:])
		}
		w.Product(b, ldb, Dense(w.copied, n), inverse.T(), rows, n, n, Set)
		return
	}
	h := half(n)
	w.SolveRight(l, b, ldb, h, rows)
	w.Product(b[h:], ldb, Matrix{b, ldb, 1}, l.at(h, 0).T(), rows, n-h, h, Subtract)
	w.SolveRight(l.at(h, h), b[h:], ldb, n-h, rows)
}

// invert returns the inverse of a small triangle.
func (w *Workspace) invert(l Matrix, n int) Matrix {
	w.inverse = Resize(w.inverse, n*n)
	invertBlock(w.inverse, n, l.Data, l.Row, n)
	return Dense(w.inverse, n)
}

// fromLeft is B ← A B for the n×cols matrix B.
func (w *Workspace) fromLeft(a Matrix, b []float64, ldb, n, cols int) {
	w.copied = Resize(w.copied, n*cols)
	for i := range n {
		copy(w.copied[i*cols:][:cols], b[i*ldb:])
	}
	w.Product(b, ldb, a, Dense(w.copied, cols), n, cols, n, Set)
}
