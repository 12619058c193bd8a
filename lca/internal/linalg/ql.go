package linalg

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

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
