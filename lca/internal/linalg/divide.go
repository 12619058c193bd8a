package linalg

import (
	"cmp"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// divide diagonalises a symmetric tridiagonal matrix T by divide and conquer (Cuppen, Numerische
// Mathematik 36, 1981; Gu and Eisenstat, SIAM Journal on Matrix Analysis 16, 1995; LAPACK's dstedc).
//
// T is torn in two, T = diag(T₁, T₂) + ρ v vᵀ, where v is zero but at the tear. With T_i = Q_i D_i Q_iᵀ and
// z = diag(Q₁, Q₂)ᵀ v, what is left is D + ρ z zᵀ, whose eigenvalues are the roots of the secular equation
// (secular.go) and whose vectors U follow from them; the vectors of T are diag(Q₁, Q₂) U. Where z_j is next to
// nothing, or two of D are next to equal, a pair of D and Q is one of T already: it is deflated, and a product
// is paid for the others only. Small blocks are left to QL.
type divide struct {
	d, e []float64 // T; d becomes its eigenvalues, in no order
	rows []float64 // row i becomes the vector of d[i]; zero at first
	ld   int
	work *Workspace
	u    []float64 // memory for n² numbers
	old  []float64 // memory for n² numbers

	z         []float64
	order     []int // of the block, by ascending d
	kept, out []pole
	secular   secular
	ql        ql
	strip     [leaf * leaf]float64 // the vectors of a leaf
}

// pole is an element of D with its z, the row it comes from and the half that is not zero in that row.
type pole struct {
	d, z float64
	row  int
	half uint8
}

// The halves of a row that are not zero.
const (
	upper uint8 = iota
	both
	lower
)

// leaf is the largest order that is left to QL: a strip of rotations.
const leaf = kernel.RotWidth

// run returns false when QL did not converge.
func (t *divide) run() bool {
	t.z = Resize(t.z, len(t.d))
	return t.solve(0, len(t.d))
}

// solve diagonalises the block of the rows and columns from … to−1.
func (t *divide) solve(from, to int) bool {
	if to-from <= leaf {
		return t.leaf(from, to)
	}
	middle := (from + to + 1) / 2
	rho := t.e[middle-1]
	t.d[middle-1] -= math.Abs(rho)
	t.d[middle] -= math.Abs(rho)
	if !t.solve(from, middle) || !t.solve(middle, to) {
		return false
	}
	t.merge(from, middle, to, rho)
	return true
}

func (t *divide) leaf(from, to int) bool {
	n, strip, q := to-from, t.strip[:], &t.ql
	clear(strip)
	for i := range n {
		strip[i*leaf+i] = 1
	}
	q.d, q.e, q.rows, q.ld = t.d[from:to], t.e[from:to], strip, leaf
	q.sweeps, q.c, q.s = q.sweeps[:0], q.c[:0], q.s[:0]
	if !q.run() {
		return false
	}
	for i := range n {
		copy(t.rows[(from+i)*t.ld+from:][:n], strip[i*leaf:])
	}
	return true
}

// merge joins the blocks from … middle−1 and middle … to−1, which ρ couples. Kept vectors come first, then
// the deflated ones.
func (t *divide) merge(from, middle, to int, rho float64) {
	for i := from; i < middle; i++ {
		t.z[i] = t.rows[i*t.ld+middle-1] * math.Sqrt2 / 2
	}
	for i := middle; i < to; i++ {
		t.z[i] = math.Copysign(math.Sqrt2/2, rho) * t.rows[i*t.ld+middle]
	}
	rho = 2 * math.Abs(rho)
	t.deflate(from, middle, to, rho)
	n, k := to-from, len(t.kept)
	if k == 0 {
		return
	}
	t.secular.set(t.kept, rho)
	var start [4]int // of each half in the order that the product wants
	for _, p := range t.kept {
		start[p.half+1]++
	}
	start[2] += start[1]
	start[3] += start[2]
	t.secular.vectors(t.u, start)
	for _, p := range t.kept {
		copy(t.old[start[p.half]*n:][:n], t.rows[p.row*t.ld+from:])
		start[p.half]++ // now each is where the next begins
	}
	for i, p := range t.out {
		copy(t.old[(k+i)*n:][:n], t.rows[p.row*t.ld+from:])
	}
	size, c := middle-from, t.rows[from*t.ld+from:]
	u, old := Dense(t.u, k), Dense(t.old, n)
	t.work.Product(c, t.ld, u, old, k, size, start[both], Set)
	t.work.Product(c[size:], t.ld, u.at(0, start[upper]), old.at(start[upper], size), k, n-size, k-start[upper], Set)
	copy(t.d[from:], t.secular.roots)
	for i, p := range t.out {
		t.d[from+k+i] = p.d
		copy(c[(k+i)*t.ld:][:n], t.old[(k+i)*n:])
	}
}

// deflate sorts the block's D into those kept, ascending, and those that are eigenvalues as they are.
func (t *divide) deflate(from, middle, to int, rho float64) {
	t.order, t.kept, t.out = t.order[:0], t.kept[:0], t.out[:0]
	top := 0.0
	for i := from; i < to; i++ {
		t.order = append(t.order, i)
		top = max(top, math.Abs(t.d[i]), math.Abs(t.z[i]))
	}
	slices.SortFunc(t.order, func(a, b int) int { return cmp.Or(cmp.Compare(t.d[a], t.d[b]), a-b) })
	least := 8 * 0x1p-53 * top
	for _, i := range t.order {
		p := pole{t.d[i], t.z[i], i, upper}
		if i >= middle {
			p.half = lower
		}
		if rho*math.Abs(p.z) <= least {
			t.out = append(t.out, p)
			continue
		}
		if last := len(t.kept) - 1; last >= 0 && t.turn(&t.kept[last], &p, from, to, least) {
			t.out = append(t.out, t.kept[last])
			t.kept = t.kept[:last]
		}
		t.kept = append(t.kept, p)
	}
}

// turn rotates two poles so that the first has no z, when that leaves less than least off the diagonal.
func (t *divide) turn(p, q *pole, from, to int, least float64) bool {
	r := norm2(p.z, q.z)
	c, s := q.z/r, -p.z/r
	if math.Abs((q.d-p.d)*c*s) > least {
		return false
	}
	x, y := t.rows[p.row*t.ld+from:][:to-from], t.rows[q.row*t.ld+from:][:to-from]
	for i, v := range x {
		x[i] = math.FMA(c, v, float64(s*y[i]))
		y[i] = math.FMA(c, y[i], -float64(s*v))
	}
	if p.half != q.half {
		q.half = both
	}
	cc, ss := float64(c*c), float64(s*s)
	p.d, q.d = math.FMA(p.d, cc, float64(q.d*ss)), math.FMA(p.d, ss, float64(q.d*cc))
	p.z, q.z = 0, r
	return true
}
