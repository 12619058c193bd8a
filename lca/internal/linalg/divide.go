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
// and whose vectors U follow from them; the vectors of T are diag(Q₁, Q₂) U. Where z_j is next to
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

// secular finds the eigenvalues of D + ρ z zᵀ, the roots λ of
//
//	w(λ) = 1/ρ + Σ_j z_j² / (d_j − λ)
//
// for ascending d_j: one between each and the next, and one above the last. Near a pole d_j − λ must not
// be a difference of large numbers, so each root is found as its distance τ from the pole nearer to it.
type secular struct {
	d, z, roots []float64
	half        []uint8
	inverse     float64 // 1/ρ
	product     []float64
	row         []float64
}

func (s *secular) set(poles []pole, rho float64) {
	k := len(poles)
	s.d, s.z, s.roots = Resize(s.d, k), Resize(s.z, k), Resize(s.roots, k)
	s.product, s.row = Resize(s.product, k), Resize(s.row, k)
	s.half = s.half[:0]
	for j, p := range poles {
		s.d[j], s.z[j] = p.d, p.z
		s.half = append(s.half, p.half)
	}
	s.inverse = 1 / rho
}

// vectors finds the roots, and writes the eigenvector of root i to row i of u, its element j to the column
// that start, of the half of pole j, is at. The roots found are exact for another z, near to the given one,
// and with that z the vectors are orthogonal however close the roots are:
//
//	ẑ_j² = (λ_j − d_j)/ρ · Π_{i≠j} (λ_i − d_j)/(d_i − d_j),   u_ij ∝ ẑ_j / (d_j − λ_i)
func (s *secular) vectors(u []float64, start [4]int) {
	k := len(s.d)
	for j := range s.product {
		s.product[j] = 1
	}
	for i, di := range s.d {
		delta := u[i*k:][:k]
		s.roots[i] = s.root(i, delta)
		for j, v := range delta {
			if j != i {
				v /= s.d[j] - di
			}
			s.product[j] *= v
		}
	}
	for j, v := range s.product {
		s.product[j] = math.Copysign(math.Sqrt(math.Abs(v)), s.z[j])
	}
	for i := range k {
		row := u[i*k:][:k]
		for j, v := range s.product {
			s.row[j] = v / row[j]
		}
		inverse, next := 1/math.Sqrt(dot(s.row, s.row)), start
		for j, v := range s.row {
			at := &next[s.half[j]]
			row[*at] = v * inverse
			*at++
		}
	}
}

// sums are both parts of w at a point and their derivatives: of the poles up to one, and of those after it.
type sums struct{ psi, phi, dpsi, dphi float64 }

// at sets delta to d_j − λ for λ = d_origin + tau and sums up to pole p, and from there on.
func (s *secular) at(delta []float64, origin int, tau float64, p int) (v sums) {
	from := s.d[origin]
	for j, d := range s.d {
		delta[j] = (d - from) - tau
	}
	v.psi, v.dpsi = partial(s.z[:p+1], delta)
	v.phi, v.dphi = partial(s.z[p+1:], delta[p+1:])
	return v
}

func partial(z, delta []float64) (sum, derivative float64) {
	delta = delta[:len(z)]
	for j, v := range z {
		t := v / delta[j]
		sum = math.FMA(v, t, sum)
		derivative = math.FMA(t, t, derivative)
	}
	return sum, derivative
}

// root returns root i and sets delta to d_j − λ_i. Each step replaces both parts of w by one pole each, with
// the same value and slope, and solves a quadratic equation; it may not leave the bracket.
func (s *secular) root(i int, delta []float64) float64 {
	const steps = 100 // rarely more than five
	k := len(s.d)
	if k == 1 {
		tau := s.z[0] * s.z[0] / s.inverse
		delta[0] = -tau
		return s.d[0] + tau
	}
	last := i == k-1
	p := min(i, k-2)
	origin, tau, low, high := s.start(i, p, delta)
	for range steps {
		v := s.at(delta, origin, tau, p)
		w := s.inverse + v.psi + v.phi
		slope := v.dpsi + v.dphi
		if math.Abs(w) <= 0x1p-53*(s.inverse+8*(math.Abs(v.psi)+math.Abs(v.phi))+math.Abs(tau)*slope) {
			break
		}
		if w < 0 {
			low = max(low, tau)
		} else {
			high = min(high, tau)
		}
		next := tau + step(w, slope, v, delta[p], delta[p+1], last)
		if !(next > low && next < high) {
			next = low + (high-low)/2
		}
		if next == tau || next <= low || next >= high {
			break // no number is left between the bounds
		}
		tau = next
	}
	return s.d[origin] + tau
}

// step solves c η² − a η + b = 0 for the step from a point with the distances dp and dq to the poles.
func step(w, slope float64, v sums, dp, dq float64, last bool) (eta float64) {
	c := w - float64(dp*v.dpsi) - float64(dq*v.dphi)
	a := float64((dp+dq)*w) - float64(dp*dq*slope)
	b := dp * dq * w
	if last {
		c = math.Abs(c)
		a = -a // the other root
	}
	root := math.Sqrt(math.Abs(float64(a*a) - float64(4*b*c)))
	if a <= 0 {
		eta = (a - root) / (2 * c)
	} else {
		eta = 2 * b / (a + root)
	}
	if last {
		eta = -eta
	}
	if !(w*eta < 0) {
		eta = -w / slope
	}
	return eta
}

// start returns the pole to count from, a first guess and a bracket. The sign of w half way to the next pole says
// on which side the root is; with the other poles' share of w there held fixed, the guess solves for two.
func (s *secular) start(i, p int, delta []float64) (origin int, tau, low, high float64) {
	k := len(s.d)
	gap := s.d[p+1] - s.d[p]
	width := gap
	origin = i
	if i == k-1 {
		width = dot(s.z, s.z) / s.inverse
	}
	v := s.at(delta, origin, width/2, p)
	w := s.inverse + v.psi + v.phi
	zp, zq := s.z[p]*s.z[p], s.z[p+1]*s.z[p+1]
	c := w - zp/delta[p] - zq/delta[p+1]
	low, high = 0, width/2
	switch {
	case i == k-1: // λ = d_q + τ: c τ² + (c·gap − z_p² − z_q²) τ − z_q² gap = 0
		if w < 0 {
			low, high = width/2, width
		}
		tau = quadratic(c, float64(c*gap)-zp-zq, -zq*gap, 1)
	case w >= 0: // λ = d_p + τ: c τ² − (c·gap + z_p² + z_q²) τ + z_p² gap = 0
		tau = quadratic(c, -float64(c*gap)-zp-zq, zp*gap, -1)
	default: // λ = d_q + τ: c τ² + (c·gap − z_p² − z_q²) τ − z_q² gap = 0, of which the negative root
		origin, low, high = i+1, -width/2, 0
		tau = quadratic(c, float64(c*gap)-zp-zq, -zq*gap, -1)
	}
	if !(tau > low && tau < high) {
		tau = low + (high-low)/2
	}
	return origin, tau, low, high
}

// quadratic returns (−b + sign·√(b²−4ac)) / 2a without cancellation.
func quadratic(a, b, c, sign float64) float64 {
	root := sign * math.Sqrt(math.Abs(float64(b*b)-float64(4*a*c)))
	if b*sign > 0 {
		return 2 * c / (-b - root)
	}
	return (-b + root) / (2 * a)
}
