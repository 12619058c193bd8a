package kernel

import "math"

// LSE writes the logarithm of Σ_j k(|q_i − z_j|²), exp(−½ |q_i − z_j|²) where k is Gaussian, for each of the rows of q, over
// the whole pool and the coordinates that count in the kernel: the Parzen part of a density up to its constant.
func LSE[T Float](dst []float64, s *Scratch[T], q []T, rows int, p *Neighbours[T]) {
	checkQueries(q, rows, p)
	s.begin()
	s.q, s.rows, s.pool, s.lse = q, rows, p, dst[:rows]
	s.student()
	defer s.end()
	s.share(p.parzen)
	s.run((rows+blockRows[T]()-1)/blockRows[T](), phaseLSE)
}

func (s *Scratch[T]) lseBlock(w *workspace[T], block int) {
	p := s.pool
	first := block * blockRows[T]()
	rows := min(blockRows[T](), s.rows-first)
	s.logits(w, first, rows)
	for r := range rows {
		row := w.row(r)
		top := s.f.rowMax(row)
		if math.IsInf(float64(top), 0) {
			s.lse[first+r] = math.Inf(-1)
			continue
		}
		nearest := p.distance(s.f, s.q[(first+r)*p.dim:][:p.dim], s.f.findGE(row, top), p.parzen, math.Inf(1))
		var sum T
		if p.Shape.DOF > 0 {
			sum, _, _ = s.f.studentRow(row, top, T(p.studentRate(nearest)), s.t.least, s.t.power)
		} else {
			sum, _ = s.f.expRow(row, top)
		}
		s.lse[first+r] = math.Log(float64(sum)) + p.Shape.Log(nearest, p.parzen)
	}
}
