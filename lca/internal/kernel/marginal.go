package kernel

import (
	"fmt"
	"math"
)

// Marginal is the pool seen from rows of which some directions are not known. With an orthonormal basis Q of those
// directions, the squared distance of a row from z_j has no part along them:
//
//	δ_ij = square_i − 2 (q_i·z_j + bias_j),   bias_j = −½ (|z_j|² − |Qᵀz_j|²)
//
// for queries q_i without such a part. It is for one goroutine; Pack reuses its memory.
type Marginal[T Float] struct {
	dims int // coordinates that count in the power of t kernels
	bias []T
}

// Pack prepares for the pool, which must not change while the Marginal is used. basis is rows × parzen, row by row. It holds Qᵀ,
// or Fᵀ with complement, where F is such that |z|² − |Qᵀz|² = |Fᵀz|². dims is how many of the kernel's coordinates remain.
func (m *Marginal[T]) Pack(s *Scratch[T], p *Neighbours[T], basis []T, rows int, complement bool, dims int) {
	if len(basis) < rows*p.parzen {
		panic(fmt.Sprintf("kernel: pack %d numbers as %d directions of %d coordinates", len(basis), rows, p.parzen))
	}
	s.begin()
	defer s.end()
	width := panelWidth[T]()
	m.dims, m.bias = dims, grow(m.bias, len(p.bias))
	w := s.space(0)
	w.tile = grow(w.tile, max(1, rows)*width)
	for j := 0; j < p.n; j += width {
		s.f.tile(w.tile, width, s.zero, 0, basis, p.parzen, 1, p.points[j*p.parzen:], width, p.parzen, rows, width)
		bias, points := m.bias[j:][:width], min(width, p.n-j)
		copy(bias, p.bias[j:][:width])
		for k := range points {
			square := T(0)
			for r := range rows {
				v := w.tile[r*width+k]
				square += T(v * v)
			}
			if complement {
				bias[k] = -0.5 * square
			} else {
				bias[k] += 0.5 * square
			}
		}
	}
}

// Mean writes Σ_j λ_ij z_j for each row of q, of the pool's dim coordinates, where λ_ij is the share of z_j in the kernels at
// the distances δ of m. A row that has overflowed has NaN.
func Mean[T Float](mean []T, s *Scratch[T], q []T, square []float64, rows int, p *Neighbours[T], m *Marginal[T]) {
	checkQueries(q, rows, p)
	s.begin()
	s.q, s.rows, s.pool, s.centre, s.square, s.marginal = q, rows, p, mean[:rows*p.dim], square[:rows], m
	s.studentOf(m.dims)
	defer s.end()
	s.share(p.parzen + p.dim)
	s.run((rows+blockRows[T]()-1)/blockRows[T](), phaseMean)
}

func (s *Scratch[T]) meanBlock(w *workspace[T], block int) {
	first := block * blockRows[T]()
	rows := min(blockRows[T](), s.rows-first)
	s.logits(w, first, rows, s.marginal.bias)
	w.totals = grow(w.totals, rows)
	for r := range rows {
		w.totals[r] = s.shares(w.row(r), s.square[first+r])
	}
	s.centres(w, first, rows)
}

// shares turns a row of logits into weights, and returns their sum; NaN for a row that has overflowed.
func (s *Scratch[T]) shares(row []T, square float64) (sum T) {
	top := s.f.rowMax(row)
	if math.IsInf(float64(top), 0) {
		return T(math.NaN())
	}
	if s.pool.Shape.DOF == 0 {
		sum, _ = s.f.expRow(row, top)
		return sum
	}
	rate := T(s.pool.studentRate(max(0, square-2*float64(top))))
	if s.t.power < 4 {
		return lowPower(row, top, rate, s.t.power)
	}
	// The pull that studentRow multiplies by is what is missing from a power that is two lower.
	_, sum, _ = s.f.studentRow(row, top, rate, s.t.least, s.t.power-2)
	return sum
}

// lowPower replaces each logit by the kernel itself, (1+u)^(−power/2), where power is 2 or 3.
func lowPower[T Float](row []T, top, rate T, power int) (sum T) {
	for j, logit := range row {
		w := T(1 / T(1+T(T(top-logit)*rate)))
		if power == 3 {
			w = T(w * T(math.Sqrt(float64(w))))
		}
		if !(w > 0) { // a logit of −Inf or NaN
			w = 0
		}
		row[j] = w
		sum += w
	}
	return sum
}
