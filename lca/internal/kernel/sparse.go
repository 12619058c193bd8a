package kernel

import "math"

// Most rows of Λ are sparse once the metric is learnt: at 256 dimensions a point has about one
// effective neighbour. A row of which at most one weight in sparseShare is above e^sparseCut of its
// largest keeps only those; the rest is zero. What is left out adds up to less than N·e^−21, 1e-6
// of the row for a pool of thousands, which float32 does not see either. The rule looks at the row alone,
// so that it does not depend on blocks, threads or implementations.
const (
	sparseShare = 16
	sparseCut32 = -21
	sparseCut64 = -40
	countFirst  = 64  // numbers counted before looking whether there are too many already, and
	countStep   = 512 // how many it becomes: most rows that are dense show it soon
	listUse     = 8   // weights a point, in lists, that ask for their rows to be made
)

// list is one sparse row: the slots and weights from … to of its worker's index and value.
type list[T Float] struct {
	row, from, to int
	inv           T
}

// begin makes room for a block over n points in padded dimensions.
func (w *worker[T]) begin(n, dims int) {
	rows := blockRows[T]()
	w.inv, w.dense = grow(w.inv, rows)[:0], grow(w.dense, rows)[:0]
	w.closed, w.summed = len(w.lists), 0
	if len(w.lists) == 0 {
		room := listUse*n + rows*ceil(n/sparseShare, lanes) + countStep // the last row may turn out to be dense
		w.index, w.value, w.lists = grow(w.index, room)[:0], grow(w.value, room)[:0], grow(w.lists, room/lanes)[:0]
	}
	w.sum = grow(w.sum, rows*dims)
}

// list appends the logits that matter to the worker's lists and returns them, padded with −Inf to a
// multiple of lanes. It returns nil when the row is dense.
func (s *Scratch[T]) list(w *worker[T], row []T, top T) []T {
	least, limit := top+sparseCut32, s.pool.n/sparseShare
	if sizeOf[T]() == 8 {
		least = top + sparseCut64
	}
	from, count := len(w.value), 0
	index, value := w.index[from:cap(w.index)], w.value[from:cap(w.value)]
	for at, step := 0, countFirst; at < len(row); at, step = at+step, min(2*step, countStep) {
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

// closeList keeps the list just made for row i.
func (w *worker[T]) closeList(i int, inv T) {
	w.lists = append(w.lists, list[T]{i, w.from, w.to, inv})
}

// sparseMeans forms ΛZ and Q − ΛZ for the sparse rows so far: the chain of w_ij z_j over the slots of the
// list. All rows take from a panel before the next one, so that it stays in the L2 cache; this waits until
// there are enough of them to use each point a few times.
func (s *Scratch[T]) sparseMeans(w *worker[T]) {
	p, width := s.pool, panelWidth[T]()
	for c := 0; c < p.dim; c += width {
		for _, l := range w.lists {
			s.f.spmv(w.sum[:width], p.coords[c*p.n:][:p.n*width], w.index[l.from:l.to], w.value[l.from:l.to])
			s.center(l.row, c, w.sum, l.inv)
		}
	}
	w.lists, w.index, w.value = w.lists[:0], w.index[:0], w.value[:0]
}

// compact chooses the points that ZᵀSZ runs over: all, or, when more than half weigh nothing, the others.
// It sets s.points, s.coords and their weights s.weightT.
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
// multiply-adds a column, e ascending. The indices of a list ascend.
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

// pick writes the slots, counted from first on, and the values of the elements of s that are at least v, and
// returns how many there are. Index and value have room for all of s; what they hold behind those is
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
