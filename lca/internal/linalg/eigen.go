package linalg

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// ErrNotFinite is wrapped by EigenSym when the matrix holds NaN or Inf.
var ErrNotFinite = errors.New("matrix is not finite")

// EigenSym returns the eigenvalues of the symmetric a, ascending, and its orthonormal
// eigenvectors as the columns of an n×n matrix. Signs are canonical: the component of largest
// magnitude (the first of equals) is positive. a is not changed.
//
// The matrix is scaled to norm one, reduced to tridiagonal form by blocks of reflections,
// and diagonalised by divide and conquer (divide.go) down to blocks for the QL
// algorithm.
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

// ql diagonalises a symmetric tridiagonal matrix by the implicit QL algorithm (Bowdler, Martin,
// Reinsch and Wilkinson, Numerische Mathematik 11, 1968; the form is that of EISPACK's tql2).
//
// Almost all of the time goes into rotating the vectors. So sweeps are recorded, and applied together to
// strips of the vectors that stay in the cache.
type ql struct {
	d, e []float64
	rows []float64 // row i is the vector of d[i]
	ld   int

	sweeps []sweep
	c, s   []float64 // the rotations of all recorded sweeps, the uppermost first within a sweep
}

// sweep rotates the rows first … first+length, by the rotations from at on.
type sweep struct{ first, length, at int }

const (
	sweepsRecorded = 24
	maxSweeps      = 60 // per eigenvalue; QL needs fewer than two on average
)

func (q *ql) run() (converged bool) {
	n := len(q.d)
	if n > 0 {
		q.e[n-1] = 0
	}
	norm, shift := 0.0, 0.0
	for l := range n {
		norm = max(norm, math.Abs(q.d[l])+math.Abs(q.e[l]))
		for count := 0; ; count++ {
			m := l
			for m < n-1 && math.Abs(q.e[m]) > 0x1p-53*norm {
				m++
			}
			if m == l {
				break
			}
			if count == maxSweeps {
				return false
			}
			shift += q.sweep(l, m)
		}
		q.d[l] += shift
		q.e[l] = 0
	}
	q.apply()
	return true
}

// sweep does one QL step on the block l … m and returns the shift it took off the diagonal.
func (q *ql) sweep(l, m int) (shift float64) {
	d, e := q.d, q.e
	g := d[l]
	p := (d[l+1] - g) / (2 * e[l])
	r := math.Copysign(math.Hypot(p, 1), p)
	d[l] = e[l] / (p + r)
	d[l+1] = e[l] * (p + r)
	next := d[l+1]
	shift = g - d[l]
	for i := l + 2; i < len(d); i++ {
		d[i] -= shift
	}
	at := len(q.c)
	q.c, q.s = extend(q.c, m-l), extend(q.s, m-l)
	p = d[m]
	c, c2, c3, s, s2 := 1.0, 1.0, 1.0, 0.0, 0.0
	second := e[l+1]
	for i := m - 1; i >= l; i-- {
		c3, c2, s2 = c2, c, s
		g = float64(c * e[i])
		h := float64(c * p)
		r = norm2(p, e[i])
		e[i+1] = float64(s * r)
		s, c = e[i]/r, p/r
		p = math.FMA(c, d[i], -float64(s*g))
		d[i+1] = math.FMA(s, math.FMA(c, g, float64(s*d[i])), h)
		q.c[at+i-l], q.s[at+i-l] = c, s
	}
	p = -s * s2 * c3 * second * e[l] / next
	e[l], d[l] = float64(s*p), float64(c*p)
	q.sweeps = append(q.sweeps, sweep{l, m - l, at})
	if len(q.sweeps) == sweepsRecorded {
		q.apply()
	}
	return shift
}

// norm2 is √(a²+b²). The matrix has norm one, so nothing overflows; where squares would
// underflow, Hypot scales.
func norm2(a, b float64) float64 {
	if v := math.FMA(a, a, float64(b*b)); v > 0x1p-900 {
		return math.Sqrt(v)
	}
	return math.Hypot(a, b)
}

func extend(s []float64, n int) []float64 {
	for range n {
		s = append(s, 0)
	}
	return s
}

// apply rotates the vectors by the recorded sweeps and forgets them.
func (q *ql) apply() {
	for strip := 0; strip < len(q.d); strip += kernel.RotWidth {
		for _, w := range q.sweeps {
			to := w.at + w.length
			kernel.Rot(q.rows[w.first*q.ld+strip:], q.ld, q.c[w.at:to], q.s[w.at:to])
		}
	}
	q.sweeps, q.c, q.s = q.sweeps[:0], q.c[:0], q.s[:0]
}
