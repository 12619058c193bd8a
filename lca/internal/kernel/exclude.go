package kernel

import "math"

// exclude sets the logits of the slots that are not admissible for row i to −Inf, and returns how many there are.
func (s *Scratch[T]) exclude(row []T, i int) (excluded int) {
	if s.ex.Start != nil {
		excluded += excludeSlots(row, s.ex.Index[s.ex.Start[i]:s.ex.Start[i+1]])
	}
	if s.ex.Window != nil {
		w := s.ex.Window[i]
		excluded += excludeSlots(row, s.ex.Order[w[0]:w[1]])
	}
	return excluded
}

func excludeSlots[T Float](row []T, slots []int32) (excluded int) {
	none := T(math.Inf(-1))
	for _, j := range slots {
		if row[j] != none {
			excluded++
		}
		row[j] = none
	}
	return excluded
}

// excludeCopies sets the logits of near copies to −Inf, and returns how many there are. Logits cannot tell a copy
// from a near point, because ½|q|² − s is the small difference of large numbers. So it computes the distance over
// all coordinates for every pair whose logit could be that of a copy, given the rounding errors of a chain of parzen
// terms. norm is |q|² over the coordinates of the kernel distance.
func (s *Scratch[T]) excludeCopies(w *workspace[T], row, q []T, norm float64, top T) (copies int) {
	w.copied, w.copiedLogits = w.copied[:0], w.copiedLogits[:0]
	p, limit := s.pool, s.ex.NearCopy
	unit := 0x1p-24
	if sizeOf[T]() == 8 {
		unit = 0x1p-53
	}
	reach := math.Sqrt(norm) + math.Sqrt(limit) // the largest |z_j| of a copy
	slack := 2 * float64(p.parzen+4) * unit * reach * reach
	least := T(0.5*(norm-limit) - slack)
	if !(top >= least) {
		return 0
	}
	last := -1 // the last copy: in discrete data many neighbours are equal to it, which is told sooner
	for j := 0; ; j++ {
		if j += s.f.findGE(row[j:], least); j >= p.n {
			return copies
		}
		if last >= 0 && p.equal(last, j) || p.distance(s.f, q, j, p.dim, limit) < limit {
			s.keepCopy(w, j, row[j])
			row[j] = T(math.Inf(-1))
			copies++
			last = j
		}
	}
}

// keepCopy remembers the logit of a near copy, where those of an atom count.
func (s *Scratch[T]) keepCopy(w *workspace[T], slot int, logit T) {
	if s.ex.Atom > 0 {
		w.copied, w.copiedLogits = append(w.copied, slot), append(w.copiedLogits, logit)
	}
}

// isAtom reports whether the row's near copies, which have been taken out, make it a row of an atom: there are as many as
// Exclusion.Atom, and all other neighbours are far. top is the largest logit of these. The copies then get their logits back.
func (s *Scratch[T]) isAtom(w *workspace[T], row, q []T, top T) bool {
	p := s.pool
	if s.ex.Atom <= 0 || len(w.copied) < s.ex.Atom {
		return false
	}
	if !math.IsInf(float64(top), 0) && p.distance(s.f, q, s.f.findGE(row, top), p.parzen, math.Inf(1)) <= FarLimit(p.parzen) {
		return false
	}
	for k, slot := range w.copied {
		row[slot] = w.copiedLogits[k]
	}
	return true
}
