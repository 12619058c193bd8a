// Package linalg holds the dense factorisations of an M-step on flat, row-major float64 matrices:
// Cholesky factors of C_G and C_L, their inverses, and the symmetric eigendecomposition of
// Proposition 1. Matrices are n×n, element (i, j) at a[i·n+j]; of a symmetric argument only the
// lower triangle is read.
//
// Why not gonum/mat: its EigenSym iterates on one thread and takes 4 s and more for a random matrix of order 512, of which
// this one needs 0.1 s; and its loops add in another order on another architecture, where our bits must stay the same.
package linalg

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// ErrNotPositiveDefinite is wrapped by CholeskyLower when a pivot is not a positive number:
// the caller has too few rows for its columns, or a constant column, or NaN.
var ErrNotPositiveDefinite = errors.New("matrix is not positive definite")

func check(what string, a []float64, n int) {
	if n < 0 || len(a) < n*n {
		panic(fmt.Sprintf("linalg: %s of order %d on %d numbers", what, n, len(a)))
	}
}

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

// Matrix is a view of numbers: element (i, j) at Data[i·Row + j·Col].
type Matrix struct {
	Data     []float64
	Row, Col int
}

// Dense is the view of a row-major matrix of n columns.
func Dense(a []float64, n int) Matrix { return Matrix{a, n, 1} }

// T is the transpose, without moving a number.
func (m Matrix) T() Matrix { return Matrix{m.Data, m.Col, m.Row} }

// at is the view from element (i, j) on.
func (m Matrix) at(i, j int) Matrix {
	return Matrix{m.Data[min(i*m.Row+j*m.Col, len(m.Data)):], m.Row, m.Col}
}

// Mode says what a product does with its destination.
type Mode uint8

// The modes: C ← AB, C ← C + AB, C ← C − AB.
const (
	Set Mode = iota
	Add
	Subtract
)

const (
	depthBlock = 256 // of k: a panel of B is 32 KiB, in the L1 cache
	rowBlock   = 56  // of rows: a block of A is 112 KiB, in the L2 cache
	plainMost  = 16  // numbers of B that are not worth packing
	lowerBlock = 28  // of rows of a lower triangle: less above the diagonal is computed in vain
)

// Workspace holds the buffers of products; they grow once. The zero value is ready. It serves one call at a time.
type Workspace struct {
	panels, block, edge []float64
	spans               []span    // of the panels
	copied, inverse     []float64 // of the solvers
	left                []float64 // of Congruence
	tridiagonal         tridiagonal
	divide              divide
	polar               polar
	zero                [kernel.TileWidth]float64
}

// span is where the numbers of a block are that are not all zero: terms from … to−1 of a product.
type span struct{ from, to int }

// Product computes C (m×n, row-major with row stride ldc) from A (m×k) and B (k×n), which must not
// overlap C. Each element is one chain of fused multiply-adds, k ascending, so that the result
// does not depend on blocks or processors. Of finite matrices, that is: terms that are zero throughout a
// block of rows of A or a panel of B are left out where the chain begins and ends, so that triangular
// factors cost half, and nothing needs to be said about them.
func (w *Workspace) Product(c []float64, ldc int, a, b Matrix, m, n, k int, mode Mode) {
	w.product(c, ldc, a, b, m, n, k, mode, false)
}

// Congruence computes C = A S Aᵀ for n×n matrices, S symmetric, both of its triangles given; C may not
// overlap the others. The result is symmetric to the bit.
func (w *Workspace) Congruence(c []float64, a Matrix, s []float64, n int) {
	w.left = Resize(w.left, n*n)
	w.Product(w.left, n, a, Dense(s, n), n, n, n, Set)
	w.product(c, n, Dense(w.left, n), a.T(), n, n, n, Set, true)
	Mirror(c, n)
}

// AddGram adds XᵀX, for X of rows×n, to the n×n matrix c on and below its diagonal; what is above is then undefined.
func (w *Workspace) AddGram(c, x []float64, rows, n int) {
	w.product(c, n, Dense(x, n).T(), Dense(x, n), n, n, rows, Add, true)
}

// AddOuter adds XXᵀ, for X of rows×n, to the rows×rows matrix c on and below its diagonal; what is above is then undefined.
func (w *Workspace) AddOuter(c, x []float64, rows, n int) {
	w.product(c, rows, Dense(x, n), Dense(x, n).T(), rows, rows, n, Add, true)
}

// AddGramTimes adds weight·XᵀXV to the n×cols matrix c, for X of rows×n and V of n×cols. Of few columns, X is read once and nothing of it is
// packed: it is what takes the time.
func (w *Workspace) AddGramTimes(c, x []float64, rows, n int, v []float64, cols int, weight float64) {
	const width = kernel.TileWidth
	if cols%width != 0 || cols > 4*width {
		w.left = Resize(w.left, rows*cols)
		w.Product(w.left, cols, Dense(x, n), Dense(v, cols), rows, cols, n, Set)
		scale(w.left, weight)
		w.Product(c, cols, Dense(x, n).T(), Dense(w.left, cols), n, cols, rows, Add)
		return
	}
	ld := n + 8 // rows a power of two apart would compete for the same lines of a cache
	w.block, w.edge = Resize(w.block, lowerBlock*ld), Resize(w.edge, lowerBlock*width)
	for i := 0; i < rows; i += lowerBlock {
		part := min(lowerBlock, rows-i)
		for r := range part {
			copy(w.block[r*ld:][:n], x[(i+r)*n:])
		}
		for j := 0; j < cols; j += width {
			kernel.Tile(w.edge, width, w.zero[:], 0, w.block, ld, 1, v[j:], cols, n, part, width)
			scale(w.edge[:part*width], weight)
			kernel.Tile(c[j:], cols, c[j:], cols, w.block, 1, ld, w.edge, width, part, n, width)
		}
	}
}

// Mirror copies the lower triangle above the diagonal, eight rows at a time: a line of the cache.
func Mirror(c []float64, n int) {
	for first := 0; first < n; first += 8 {
		last := min(first+8, n)
		for j := range last {
			for i := max(first, j+1); i < last; i++ {
				c[j*n+i] = c[i*n+j]
			}
		}
	}
}

// product is Product; of a product that is symmetric, lower asks for no more than the lower triangle.
func (w *Workspace) product(c []float64, ldc int, a, b Matrix, m, n, k int, mode Mode, lower bool) {
	if m < 0 || n < 0 || k < 0 || (m > 0 && n > 0 && len(c) < (m-1)*ldc+n) {
		panic(fmt.Sprintf("linalg: product of %d×%d and %d×%d into %d numbers", m, k, k, n, len(c)))
	}
	if n*k <= plainMost {
		plain(c, ldc, a, b, m, n, k, mode)
		return
	}
	const width = kernel.TileWidth
	step := rowBlock
	if lower {
		step = lowerBlock
	}
	for l := 0; l < k; l += depthBlock {
		depth := min(depthBlock, k-l)
		w.pack(b.at(l, 0), depth, n, mode == Subtract)
		for i := 0; i < m; i += step {
			rows := min(step, m-i)
			own := columnsOf(a.at(i, l), rows, depth)
			block := w.copyBlock(a.at(i, l), rows, depth)
			for j := 0; j < n && !(lower && j >= i+rows); j += width {
				set := l == 0 && mode == Set
				to := min(own.to, w.spans[j/width].to)
				from := min(to, max(own.from, w.spans[j/width].from))
				if from == to && !set {
					continue
				}
				w.tile(c[i*ldc+j:], ldc, block.at(0, from), w.panels[j*depth+from*width:], to-from, rows, min(width, n-j), set)
			}
		}
	}
}

// plain is the product of next to nothing, by the same chains.
func plain(c []float64, ldc int, a, b Matrix, m, n, k int, mode Mode) {
	for i := range m {
		row := c[i*ldc:][:n]
		for j, s := range row {
			if mode == Set {
				s = 0
			}
			for l := range k {
				v := b.Data[l*b.Row+j*b.Col]
				if mode == Subtract {
					v = -v
				}
				s = math.FMA(a.Data[i*a.Row+l*a.Col], v, s)
			}
			row[j] = s
		}
	}
}

// columnsOf is the span of the columns of a block.
func columnsOf(a Matrix, rows, cols int) span {
	s := span{cols, 0}
	for i := 0; i < rows && (s.from > 0 || s.to < cols); i++ {
		row := a.at(i, 0).Data
		for k := 0; k < s.from; k++ {
			if row[k*a.Col] != 0 {
				s.from = k
			}
		}
		for k := cols - 1; k >= s.to; k-- {
			if row[k*a.Col] != 0 {
				s.to = k + 1
			}
		}
	}
	return s
}

// rowsOf is the span of the rows of a panel.
func rowsOf(panel []float64) span {
	first := 0
	for first < len(panel) && panel[first] == 0 {
		first++
	}
	last := len(panel)
	for last > first && panel[last-1] == 0 {
		last--
	}
	const width = kernel.TileWidth
	return span{first / width, (last + width - 1) / width}
}

// tile multiplies a block of A with a panel of B. Tiles touch whole halves of a panel; where C is
// narrower, they go through a buffer.
func (w *Workspace) tile(c []float64, ldc int, a Matrix, panel []float64, depth, rows, cols int, set bool) {
	const width = kernel.TileWidth
	if cols == width || cols == width/2 {
		if set {
			kernel.Tile(c, ldc, w.zero[:], 0, a.Data, a.Row, a.Col, panel, width, depth, rows, cols)
		} else {
			kernel.Tile(c, ldc, c, ldc, a.Data, a.Row, a.Col, panel, width, depth, rows, cols)
		}
		return
	}
	w.edge = Resize(w.edge, rows*width)
	clear(w.edge)
	for i := 0; i < rows && !set; i++ {
		copy(w.edge[i*width:][:cols], c[i*ldc:])
	}
	kernel.Tile(w.edge, width, w.edge, width, a.Data, a.Row, a.Col, panel, width, depth, rows, cols)
	for i := range rows {
		copy(c[i*ldc:][:cols], w.edge[i*width:])
	}
}

// pack copies B, negated for a difference, into panels of kernel.TileWidth columns.
func (w *Workspace) pack(b Matrix, depth, n int, negate bool) {
	const width = kernel.TileWidth
	w.panels = Resize(w.panels, depth*(n+width-1)/width*width+depth*width)
	w.spans = w.spans[:0]
	for j := 0; j < n; j += width {
		panel, cols := w.panels[j*depth:][:depth*width], min(width, n-j)
		if cols < width {
			clear(panel)
		}
		from := b.at(0, j)
		switch {
		case b.Col == 1:
			for l := range depth {
				copy(panel[l*width:][:cols], from.Data[l*b.Row:])
			}
		case b.Row == 1:
			kernel.Transpose(panel, from.Data, b.Col, cols, depth)
		default:
			for l := range depth {
				for e := range cols {
					panel[l*width+e] = from.Data[l*b.Row+e*b.Col]
				}
			}
		}
		if negate {
			for e, v := range panel {
				panel[e] = -v
			}
		}
		w.spans = append(w.spans, rowsOf(panel))
	}
}

// copyBlock returns the block of A, copied when its rows would compete for the same lines of a cache. A transpose
// of few columns is read in place: the rows of a tile lie side by side.
func (w *Workspace) copyBlock(a Matrix, rows, depth int) Matrix {
	const pageNumbers = 4096 / 8
	if a.Col == 1 && a.Row%(pageNumbers/8) != 0 || a.Row == 1 && a.Col < pageNumbers || depth == 1 {
		return a
	}
	const ld = depthBlock + 8
	w.block = Resize(w.block, rowBlock*ld)
	for i := range rows {
		to := w.block[i*ld:][:depth]
		if a.Col == 1 {
			copy(to, a.Data[i*a.Row:])
			continue
		}
		for l := range to {
			to[l] = a.Data[i*a.Row+l*a.Col]
		}
	}
	return Matrix{w.block, ld, 1}
}
