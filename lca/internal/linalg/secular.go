package linalg

import "math"

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
