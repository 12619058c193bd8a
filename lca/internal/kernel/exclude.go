package kernel

import "math"

// exclude sets the logits of the slots that hold row i's own record to −Inf, and counts them.
func (s *Scratch[T]) exclude(row []T, i int) (excluded int) {
	if s.ex.Start == nil {
		return 0
	}
	for _, j := range s.ex.Index[s.ex.Start[i]:s.ex.Start[i+1]] {
		if float64(row[j]) != math.Inf(-1) {
			excluded++
		}
		row[j] = T(math.Inf(-1))
	}
	return excluded
}

// excludeCopies sets the logits of near copies to −Inf, and counts them. Logits cannot tell a copy
// from a near point: ½|q|² − s is the small difference of large numbers. So every pair whose logit
// could be that of a copy, the rounding errors of its chain of parzen terms allowed for, is looked
// at again, coordinate by coordinate over the full metric.
// norm is |q|² over the coordinates that count in the kernel.
func (s *Scratch[T]) excludeCopies(row, q []T, norm float64, top T) (copies int) {
	p, limit := s.pool, s.ex.NearCopy
	unit := 0x1p-24
	if sizeOf[T]() == 8 {
		unit = 0x1p-53
	}
	reach := math.Sqrt(norm) + math.Sqrt(limit) // |z_j| of a copy is at most this
	slack := 2 * float64(p.parzen+4) * unit * reach * reach
	least := T(0.5*(norm-limit) - slack)
	if !(top >= least) {
		return 0
	}
	for j := 0; ; j++ {
		if j += s.f.findGE(row[j:], least); j >= p.n {
			return copies
		}
		if p.distance(s.f, q, j, p.dim, limit) < limit {
			row[j] = T(math.Inf(-1))
			copies++
		}
	}
}
