package kernel

import "math"

// Most rows of Λ are sparse once the metric is learnt: in 256 dimensions a point has about one effective neighbour.
// If at most one weight in sparseShare of a row exceeds e^sparseCut of the largest, the row keeps only those, and the
// others count as zero. They add up to less than N·e^−21, which is 1e-6 of the row for a pool of thousands, and
// float32 could not represent that either. The rule depends on the row alone, so that the result does not depend on
// blocks, threads or implementations.
const (
	sparseShare = 16
	sparseCut32 = -21
	sparseCut64 = -40

	// countFirst is how many logits are looked at before the first check for too many weights; of a small pool no more than
	// can be too many. The number doubles up to countStep, because a dense row mostly shows itself early.
	countFirst = 64
	countStep  = 512

	// listUse is the number of listed weights per point of the pool at which the means of the sparse rows are
	// formed: each point that is loaded is then used about that often.
	listUse = 8
)

// list is one sparse row.
type list[T Float] struct {
	row        int // its index in the minibatch
	from, to   int // bounds of its slots and weights, in the workspace's index and value
	factors[T]     // of its weights
}

// begin makes room for a block of rows over n points of dims coordinates, whole panels.
func (w *workspace[T]) begin(n, dims int) {
	rows := blockRows[T]()
	w.factors, w.dense = grow(w.factors, rows)[:0], grow(w.dense, rows)[:0]
	w.closed, w.summed = len(w.lists), 0
	if len(w.lists) == 0 {
		room := listUse*n + rows*ceil(n/sparseShare, lanes) + countStep // the last row may turn out to be dense
		w.index, w.value, w.lists = grow(w.index, room)[:0], grow(w.value, room)[:0], grow(w.lists, room/lanes)[:0]
	}
	w.sum = grow(w.sum, rows*dims)
}

// list appends the logits of the large weights to the workspace's lists and returns them, padded with −Inf to a
// multiple of lanes. It returns nil if the row is dense. rate is that of t kernels.
func (s *Scratch[T]) list(w *workspace[T], row []T, top, rate T) []T {
	least, limit := top+sparseCut32, s.pool.n/sparseShare
	switch {
	case s.pool.Shape.DOF > 0:
		least = top - T(s.t.reach/float64(rate))
	case sizeOf[T]() == 8:
		least = top + sparseCut64
	}
	from, count := len(w.value), 0
	index, value := w.index[from:cap(w.index)], w.value[from:cap(w.value)]
	for at, step := 0, min(countFirst, ceil(limit+1, lanes)); at < len(row); at, step = at+step, min(2*step, countStep) {
		part := row[at:min(at+step, len(row))]
		if count += s.f.pick(index[count:], value[count:], part, int32(at), least); count > limit {
			return nil
		}
	}
	w.from, w.to = from, from+count
	w.index, w.value = w.index[:from+count], w.value[:from+count]
	for len(w.value)%lanes != 0 {
		w.index, w.value = append(w.index, 0), append(w.value, T(math.Inf(-1)))
	}
	return w.value[from:]
}

// closeList records the newest list as row i.
func (w *workspace[T]) closeList(i int, f factors[T]) {
	w.lists = append(w.lists, list[T]{i, w.from, w.to, f})
}

// sparseMeans forms ΛZ and Q − ΛZ for the sparse rows so far, by the chain of w_ij z_j over the slots of each list. It
// uses a panel for all rows before the next panel, so that the panel stays in the L2 cache. It is called when there
// are enough rows to use each point several times ([listUse]).
func (s *Scratch[T]) sparseMeans(w *workspace[T]) {
	p, width := s.pool, panelWidth[T]()
	for c := 0; c < p.dim; c += width {
		for _, l := range w.lists {
			s.f.spmv(w.sum[:width], p.coords[c*p.n:][:p.n*width], w.index[l.from:l.to], w.value[l.from:l.to])
			s.storeMean(l.row, c, w.sum, l.factors)
		}
	}
	w.lists, w.index, w.value = w.lists[:0], w.index[:0], w.value[:0]
}

// compact chooses the points that ZᵀSZ runs over: all of them or, if more than half have no weight, a copy of those
// that have one. It sets s.points, s.coords and their weights s.weightT.
func (s *Scratch[T]) compact() {
	p, width := s.pool, panelWidth[T]()
	s.weightT = s.weightT[:0]
	for _, v := range s.weight[:p.n] {
		if v != 0 {
			s.weightT = append(s.weightT, T(v))
		}
	}
	s.points, s.coords = len(s.weightT), p.coords
	if 2*s.points >= p.n {
		s.points, s.weightT = p.n, s.weightT[:0]
		for _, v := range s.weight[:p.n] {
			s.weightT = append(s.weightT, T(v))
		}
		return
	}
	s.kept = grow(s.kept, ceil(p.dim, width)*s.points)
	for c := 0; c < p.dim; c += width {
		from, to := p.coords[c*p.n:][:p.n*width], s.kept[c*s.points:]
		for j, v := range s.weight[:p.n] {
			if v != 0 {
				copy(to[:width], from[j*width:])
				to = to[width:]
			}
		}
	}
	s.coords = s.kept
}

// spmv32 and spmv64 write the sum over e of value[e] times row index[e] of a panel: one chain of
// multiply-adds per column, e ascending. The indices ascend.
func spmv32(dst, panel []float32, index []int32, value []float32) {
	clear(dst)
	for e, j := range index {
		for c, v := range panel[int(j)*len(dst):][:len(dst)] {
			dst[c] = fma32(value[e], v, dst[c])
		}
	}
}

func spmv64(dst, panel []float64, index []int32, value []float64) {
	clear(dst)
	for e, j := range index {
		for c, v := range panel[int(j)*len(dst):][:len(dst)] {
			dst[c] = math.FMA(value[e], v, dst[c])
		}
	}
}

// scatterAdd32 and scatterAdd64 add value[e]·factor to sums[index[e]], each by a multiply-add.
func scatterAdd32(sums []float32, index []int32, value []float32, factor float32) {
	for e, j := range index {
		sums[j] = fma32(value[e], factor, sums[j])
	}
}

func scatterAdd64(sums []float64, index []int32, value []float64, factor float64) {
	for e, j := range index {
		sums[j] = math.FMA(value[e], factor, sums[j])
	}
}

// axpy32 and axpy64 add row[j]·factor to sums[j], each by a multiply-add.
func axpy32(sums, row []float32, factor float32) {
	for j, v := range row {
		sums[j] = fma32(v, factor, sums[j])
	}
}

func axpy64(sums, row []float64, factor float64) {
	for j, v := range row {
		sums[j] = math.FMA(v, factor, sums[j])
	}
}

// pick finds the elements of s that are at least v. It writes first plus their indices to index, their values to
// value, and returns their count. index and value have room for all of s; what follows the found elements is
// unspecified. len(s) is a multiple of lanes.
func pick[T Float](index []int32, value, s []T, first int32, v T) (count int) {
	for j, x := range s {
		if x >= v {
			index[count], value[count] = first+int32(j), x
			count++
		}
	}
	return count
}
