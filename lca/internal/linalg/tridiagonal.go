package linalg

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

const (
	// panelColumns is the number of columns reduced before the rest of the matrix is updated.
	panelColumns = 32
	// diagonal is the order of the blocks on the diagonal that are stored whole.
	diagonal = 8
)

// tridiagonal reduces a symmetric matrix A = Q T Qᵀ by Householder reflections.
//
// Reflection k is I − τ v vᵀ with v zero up to k and v_{k+1} = 1; it clears column k below the
// subdiagonal. Then A ← A − v wᵀ − w vᵀ with w = p − ½τ(pᵀv)v and p = τAv. Within a panel of columns
// that update is put off: the corrections to a column, and to p, are products with the v and w so
// far, and the rest of A is updated once per panel. The pairs are kept in two forms, so that every
// product is a row vector times a row-major matrix:
//
//	pairs   row 2i = w_i, row 2i+1 = v_i of the panel      (2·panelColumns × ld)
//	left    column 2i = −v_i, column 2i+1 = −w_i           (n × 2·panelColumns)
//
// Of A the upper triangle is stored, so that row k is column k from the diagonal on, and next to it the whole
// blocks on the diagonal. What Av costs is fetching A, so each number is fetched once, for its row and for
// its column ([kernel.Symv]).
type tridiagonal struct {
	n, ld int
	a     []float64 // n × ld
	d, e  []float64 // T: diagonal; e[k] couples k and k+1
	v     []float64 // row k: the vector of reflection k
	tau   []float64
	q     []float64 // row i: an eigenvector of T, then of A; n × ld

	pairs, left []float64
	column, p   []float64
	small       [2 * panelColumns]float64
	zero        [kernel.TileWidth]float64

	columns         []float64 // of turnBack, as are
	product, turned [rowBlock * panelColumns]float64
	gram, minus     [panelColumns * panelColumns]float64
	order           []int // of the eigenvalues
}

// set copies the lower triangle of a, divided by norm.
func (t *tridiagonal) set(a []float64, n int, norm float64) {
	ld := padded(n)
	t.n, t.ld = n, ld
	t.a, t.d, t.e = zeros(t.a, (n+diagonal-1)/diagonal*diagonal*ld), zeros(t.d, n), zeros(t.e, n)
	t.v, t.tau, t.q = zeros(t.v, n*ld), zeros(t.tau, n), zeros(t.q, n*ld)
	t.pairs, t.left = zeros(t.pairs, 2*panelColumns*ld), zeros(t.left, n*2*panelColumns)
	t.column, t.p = zeros(t.column, ld), zeros(t.p, ld)
	for first := 0; first < n; first += diagonal { // a line of the cache at a time
		last := min(first+diagonal, n)
		for j := range last {
			for i := max(first, j); i < last; i++ {
				t.a[j*ld+i] = a[i*n+j] / norm
				if j >= first {
					t.a[i*ld+j] = t.a[j*ld+i]
				}
			}
		}
	}
}

func zeros(s []float64, n int) []float64 {
	s = Resize(s, n)
	clear(s)
	return s
}

// padded is the row stride: whole strips of rotations, and an odd number of half strips, so that rows
// do not compete for the same lines of a cache.
func padded(n int) int {
	const strip = kernel.RotWidth
	n = (n + strip - 1) / strip * strip
	if n%(2*strip) == 0 {
		n += strip
	}
	return n
}

// floor rounds a column down to the start of its tile.
func floor(k int) int { return k / kernel.TileWidth * kernel.TileWidth }

// times adds x·M to dst for the columns of M from first (a multiple of the tile's width) to n.
func (t *tridiagonal) times(dst, x, m []float64, ld, first, n int) {
	const width = kernel.TileWidth
	for j := first; j < n; j += width {
		kernel.Tile(dst[j:], width, dst[j:], width, x, 0, 1, m[j:], ld, len(x), 1, width)
	}
}

func (t *tridiagonal) reduce() {
	for k := 0; k < t.n; k += panelColumns {
		clear(t.pairs)
		clear(t.left)
		last := min(k+panelColumns, t.n)
		for c := k; c < last; c++ {
			t.reduceColumn(c, 2*(c-k))
		}
		t.updateRest(last)
	}
}

// reduceColumn makes reflection k, when used rows of pairs are in use.
func (t *tridiagonal) reduceColumn(k, used int) {
	const width = 2 * panelColumns
	n, ld := t.n, t.ld
	copy(t.column, t.a[k*ld:][:ld])
	t.times(t.column, t.left[k*width:][:used], t.pairs, ld, floor(k), n)
	t.d[k] = t.column[k]
	if k == n-1 {
		return
	}
	v := t.v[k*ld:][:ld]
	copy(v[k+1:n], t.column[k+1:n])
	t.e[k], t.tau[k] = reflection(v[k+1 : n])
	tau := t.tau[k]
	if tau == 0 {
		return
	}
	clear(t.p)
	for i := (k + 1) / diagonal * diagonal; i < n; i += diagonal {
		kernel.Symv(t.p[i:], t.a[i*ld+i:], ld, v[i:], (n-i+diagonal-1)/diagonal*diagonal)
	}
	if used > 0 {
		clear(t.small[:])
		t.times(t.small[:], v[k+1:n], t.left[(k+1)*width:], width, 0, used)
		t.times(t.p, t.small[:used], t.pairs, ld, floor(k+1), n)
	}
	clear(t.p[:k+1])
	half := -0.5 * tau * tau * dot(t.p[k+1:n], v[k+1:n])
	w := t.pairs[used*ld:][:ld]
	copy(t.pairs[(used+1)*ld:][:ld], v)
	for i := k + 1; i < n; i++ {
		w[i] = math.FMA(half, v[i], float64(tau*t.p[i]))
		t.left[i*width+used], t.left[i*width+used+1] = -v[i], -w[i]
	}
}

// reflection turns x into v with v_0 = 1, such that (I − τ v vᵀ) x = β e_0.
func reflection(x []float64) (beta, tau float64) {
	tail := dot(x[1:], x[1:])
	if tail == 0 {
		return x[0], 0
	}
	beta = -math.Copysign(math.Sqrt(math.FMA(x[0], x[0], tail)), x[0])
	tau = (beta - x[0]) / beta
	scale := 1 / (x[0] - beta)
	for i := range x {
		x[i] *= scale
	}
	x[0] = 1
	return beta, tau
}

// updateRest adds the panel's pairs to the rows and columns of A from k on, down to the diagonal.
func (t *tridiagonal) updateRest(k int) {
	const depth, width = 2 * panelColumns, kernel.TileWidth
	for j := floor(k); k < t.n && j < t.n; j += width {
		c, rows := t.a[k*t.ld+j:], min(j+width, t.n)-k
		kernel.Tile(c, t.ld, c, t.ld, t.left[k*depth:], depth, 1, t.pairs[j:], t.ld, depth, rows, width)
	}
}

// turnBack multiplies the rows of q, the eigenvectors of T, by Qᵀ from the right, panel by panel from the
// last: with the panel's vectors as the columns of V, its reflections are I − V U Vᵀ, U upper triangular, and
// q ← q (I − V Uᵀ Vᵀ).
func (t *tridiagonal) turnBack() {
	t.columns = Resize(t.columns, t.n*panelColumns)
	columns, product, turned := t.columns, t.product[:], t.turned[:]
	for k := (t.n - 1) / panelColumns * panelColumns; k >= 0; k -= panelColumns {
		size := min(panelColumns, t.n-k)
		depth := t.n - k
		clear(columns)
		for c := range size {
			for i, v := range t.v[(k+c)*t.ld+k:][:depth] {
				columns[i*panelColumns+c] = v
			}
		}
		t.triangle(columns, k, size)
		for i := 0; i < t.n; i += rowBlock {
			rows, q := min(rowBlock, t.n-i), t.q[i*t.ld:]
			multiply32(product, q[k:], t.ld, columns, rows, depth, t.zero[:])
			multiply32(turned, product, panelColumns, t.minus[:], rows, panelColumns, t.zero[:])
			for j := floor(k); j < t.n; j += kernel.TileWidth {
				kernel.Tile(q[j:], t.ld, q[j:], t.ld, turned, panelColumns, 1, t.v[k*t.ld+j:], t.ld, size, rows, kernel.TileWidth)
			}
		}
	}
}

// multiply32 computes C = A·B for B and C of panelColumns columns.
func multiply32(c, a []float64, lda int, b []float64, rows, depth int, zero []float64) {
	for j := 0; j < panelColumns; j += kernel.TileWidth {
		kernel.Tile(c[j:], panelColumns, zero, 0, a, lda, 1, b[j:], panelColumns, depth, rows, kernel.TileWidth)
	}
}

// triangle sets minus to −Uᵀ of the panel from k on: U_ii = τ_i, and above it −τ_i U VᵀV e_i.
func (t *tridiagonal) triangle(columns []float64, k, size int) {
	gram, minus := &t.gram, &t.minus
	clear(gram[:])
	clear(minus[:])
	rows := t.n - k
	for j := 0; j < panelColumns; j += kernel.TileWidth {
		kernel.Tile(gram[j:], panelColumns, t.zero[:], 0, t.v[k*t.ld+k:], t.ld, 1, columns[j:], panelColumns, rows, size, kernel.TileWidth)
	}
	for i := range size {
		tau := t.tau[k+i]
		for r := range i {
			// Row r of U up to column i is column r of −Uᵀ: U_ri = −τ Σ_c U_rc (v_cᵀ v_i).
			var s float64
			for c := r; c < i; c++ {
				s = math.FMA(minus[c*panelColumns+r], gram[c*panelColumns+i], s)
			}
			minus[i*panelColumns+r] = -tau * s
		}
		minus[i*panelColumns+i] = -tau
	}
}
