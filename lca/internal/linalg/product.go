package linalg

import (
	"fmt"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

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
	rowBlock   = 112 // of rows: a block of A is 224 KiB, in the L2 cache
)

// Workspace holds the buffers of products; they grow once. The zero value is ready. It serves one call at a time.
type Workspace struct {
	panels, block, edge []float64
	copied, inverse     []float64 // of the solvers
	zero                [kernel.TileWidth]float64
}

// Product computes C (m×n, row-major with row stride ldc) from A (m×k) and B (k×n), which must not
// overlap C. Each element is one chain of fused multiply-adds, k ascending, so that the result
// does not depend on blocks or processors.
func (w *Workspace) Product(c []float64, ldc int, a, b Matrix, m, n, k int, mode Mode) {
	if m < 0 || n < 0 || k < 0 || (m > 0 && n > 0 && len(c) < (m-1)*ldc+n) {
		panic(fmt.Sprintf("linalg: product of %d×%d and %d×%d into %d numbers", m, k, k, n, len(c)))
	}
	if k == 0 && mode == Set {
		for i := range m {
			clear(c[i*ldc:][:n])
		}
	}
	const width = kernel.TileWidth
	for l := 0; l < k; l += depthBlock {
		depth := min(depthBlock, k-l)
		w.pack(b.at(l, 0), depth, n, mode == Subtract)
		for i := 0; i < m; i += rowBlock {
			rows := min(rowBlock, m-i)
			block := w.copyBlock(a.at(i, l), rows, depth)
			for j := 0; j < n; j += width {
				w.tile(c[i*ldc+j:], ldc, block, w.panels[j*depth:], depth, rows, min(width, n-j), l == 0 && mode == Set)
			}
		}
	}
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
	w.edge = resize(w.edge, rows*width)
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
	w.panels = resize(w.panels, depth*(n+width-1)/width*width+depth*width)
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
	}
}

// copyBlock returns the block of A, copied when its rows would compete for the same lines of a cache.
func (w *Workspace) copyBlock(a Matrix, rows, depth int) Matrix {
	const pageNumbers = 4096 / 8
	if a.Col == 1 && a.Row%(pageNumbers/8) != 0 || depth == 1 {
		return a
	}
	const ld = depthBlock + 8
	w.block = resize(w.block, rowBlock*ld)
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

func resize(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n)
	}
	return s[:n]
}
