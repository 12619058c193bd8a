package kernel

import "math"

// Attract writes to lse the logarithm of Σ_j k(|q_i − z_j|²), exp(−½ |q_i − z_j|²) where k is Gaussian, for each of the rows of
// q, over the whole pool and the coordinates that count in the kernel: the Parzen part of a density up to its constant.
//
// It also writes what draws each row: its pull W_i = Σ_j w_ij, where w_ij is the share λ_ij times [Shape.Pull], and the
// centre Σ_j w_ij z_j / W_i, of the pool's dim coordinates. The gradient of −lse is W_i (q_i − centre_i). A row that has
// overflowed has NaN in both. pull and centre may both be nil.
func Attract[T Float](lse, pull []float64, centre []T, s *Scratch[T], q []T, rows int, p *Neighbours[T]) {
	checkQueries(q, rows, p)
	s.begin()
	s.q, s.rows, s.pool, s.lse = q, rows, p, lse[:rows]
	multiplied := p.parzen
	if centre != nil {
		s.pull, s.centre = pull[:rows], centre[:rows*p.dim]
		multiplied += p.dim
	}
	s.student()
	defer s.end()
	s.share(multiplied)
	s.run((rows+blockRows[T]()-1)/blockRows[T](), phaseLSE)
}

func (s *Scratch[T]) lseBlock(w *workspace[T], block int) {
	p := s.pool
	first := block * blockRows[T]()
	rows := min(blockRows[T](), s.rows-first)
	s.logits(w, first, rows, p.bias)
	w.totals = grow(w.totals, rows)
	for r := range rows {
		row := w.row(r)
		top := s.f.rowMax(row)
		if math.IsInf(float64(top), 0) {
			s.lse[first+r], w.totals[r] = math.Inf(-1), T(math.NaN())
			if s.centre != nil {
				s.pull[first+r] = math.NaN()
			}
			continue
		}
		nearest := p.distance(s.f, s.q[(first+r)*p.dim:][:p.dim], s.f.findGE(row, top), p.parzen, math.Inf(1))
		var sum T
		if p.Shape.DOF > 0 {
			sum, w.totals[r], _ = s.f.studentRow(row, top, T(p.studentRate(nearest)), s.t.least, s.t.power)
		} else {
			sum, _ = s.f.expRow(row, top)
			w.totals[r] = sum
		}
		s.lse[first+r] = math.Log(float64(sum)) + p.Shape.Log(nearest, p.parzen)
		if s.centre != nil {
			s.pull[first+r] = p.Shape.Pull(nearest, p.parzen) * float64(w.totals[r]) / float64(sum)
		}
	}
	if s.centre != nil {
		s.centres(w, first, rows)
	}
}

// centres divides the weighted sums of the points by the rows' totals.
func (s *Scratch[T]) centres(w *workspace[T], first, rows int) {
	p, width := s.pool, panelWidth[T]()
	w.sum = grow(w.sum, blockRows[T]()*ceil(p.dim, width))
	s.weightedSums(w, rows)
	for r := range rows {
		total := w.totals[r]
		to := s.centre[(first+r)*p.dim:][:p.dim]
		for c := 0; c < p.dim; c += width {
			for k, v := range w.sum[c*blockRows[T]()+r*width:][:min(width, p.dim-c)] {
				to[c+k] = v / total
			}
		}
	}
}

// weightedSums forms Σ_j w_rj z_j for the first rows of the block, whose weights have taken the place of their logits, by
// one chain over all j: w.sum.
func (s *Scratch[T]) weightedSums(w *workspace[T], rows int) {
	p, width := s.pool, panelWidth[T]()
	rows = ceil(rows, 4) // tiles of one or two rows are slow, so up to three unused rows are computed too
	for k := 0; k < p.n; k += chainRows {
		depth := min(chainRows, p.n-k)
		for c := 0; c < p.dim; c += width {
			out := w.sum[c*blockRows[T]():]
			init, ldi := out, width
			if k == 0 {
				init, ldi = s.zero, 0
			}
			s.f.tile(out, width, init, ldi, w.logits[k:], w.ld, 1, p.coords[c*p.n+k*width:], width, depth, rows, min(width, p.dim-c))
		}
	}
}
