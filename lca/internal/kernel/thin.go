package kernel

import "math"

// thin is a W of few numbers: each coordinate is a column times a weight, and then a few directions are stretched,
//
//	y = (I + Uᵀ diag(more) U) D(x−μ)
//
// with as many numbers as U has. Of the dense W it takes no element.
type thin struct {
	used    bool
	column  []int // of x, for each coordinate
	doubles factorsOfThin[float64]
	singles factorsOfThin[float32]
}

// factorsOfThin are the numbers of a thin W in the arithmetic of its products.
type factorsOfThin[Q Float] struct {
	weight []Q // D
	rank   int
	along  []Q // Uᵀ as a panel of points
	back   []Q // diag(more) U, rows of whole panels
}

// PackThin is [Coordinates.Pack] for a W of few numbers: coordinate j is weight_j times column_j of x−μ, and then the rows u_l, one number for each
// coordinate, add more_l·u_l(u_l·y) to it.
func (c *Coordinates[T]) PackThin(mean []float64, column []int, weight, u, more []float64, deviation []float64) {
	dim, out := len(mean), len(column)
	t := &c.thin
	t.used, t.column = true, append(t.column[:0], column...)
	if c.inFloat32 = sizeOf[T]() == 4 && thinSuffices(column, weight, u, more, deviation); c.inFloat32 {
		c.single.dim, c.single.out, c.single.mean = dim, out, append(c.single.mean[:0], mean...)
		t.singles.set(weight, u, more)
	} else {
		c.double.dim, c.double.out, c.double.mean = dim, out, append(c.double.mean[:0], mean...)
		t.doubles.set(weight, u, more)
	}
}

// thinSuffices is Float32Suffices: no coordinate is a small difference of large numbers.
func thinSuffices(column []int, weight, u, more, deviation []float64) bool {
	out := len(column)
	size := make([]float64, out)
	for j, k := range column {
		size[j] = math.Abs(weight[j]) * deviation[k]
	}
	all := append([]float64(nil), size...)
	for l, m := range more {
		along := 0.0
		for j, v := range u[l*out:][:out] {
			along += float64(math.Abs(v) * size[j])
		}
		for j, v := range u[l*out:][:out] {
			all[j] += float64(math.Abs(m*v) * along)
		}
	}
	for _, v := range all {
		if !(v <= float32Limit) {
			return false
		}
	}
	return true
}

func (t *factorsOfThin[Q]) set(weight, u, more []float64) {
	out, width := len(weight), panelWidth[Q]()
	t.weight, t.rank = grow(t.weight, out), len(more)
	for j, v := range weight {
		t.weight[j] = Q(v)
	}
	ld := ceil(out, width)
	t.back, t.along = grow(t.back, t.rank*ld), grow(t.along, ceil(t.rank, width)*out)
	clear(t.back)
	clear(t.along)
	for l, m := range more {
		panel := t.along[l/width*width*out:]
		for j, v := range u[l*out:][:out] {
			panel[j*width+l%width] = Q(v)
			t.back[l*ld+j] = Q(m * v)
		}
	}
}

// applyThin writes W times the centred rows q, of stride ld, to dst, rounded to T.
func applyThin[T, Q Float](t *factorsOfThin[Q], column []int, dst view[T], s *Scratch[Q], q []Q, ld, rows int) {
	w, width, out := s.space(0), panelWidth[Q](), len(column)
	step := ceil(out, width)
	w.sum, w.totals = grow(w.sum, projectRows*step), grow(w.totals, projectRows*ceil(t.rank, width))
	y, a, lda := w.sum, w.totals, ceil(t.rank, width)
	for r := range rows {
		from, to := q[r*ld:], y[r*step:][:out]
		for j, k := range column {
			to[j] = from[k] * t.weight[j]
		}
		clear(y[r*step+out : (r+1)*step])
	}
	for l := 0; l < t.rank; l += width {
		s.f.tile(a[l:], lda, s.zero, 0, y, step, 1, t.along[l*out:], width, out, rows, min(width, t.rank-l))
	}
	for j := 0; j < out && t.rank > 0; j += width {
		s.f.tile(y[j:], step, y[j:], step, a, lda, 1, t.back[j:], step, t.rank, rows, min(width, out-j))
	}
	for c := 0; c < out; c += panelWidth[T]() {
		cols, to := min(panelWidth[T](), out-c), dst.from(c)
		for r := range rows {
			copyTo(to[r*dst.ld:][:cols], y[r*step+c:])
		}
	}
}

func copyTo[T, Q Float](dst []T, src []Q) {
	src = src[:len(dst)]
	for k, v := range src {
		dst[k] = T(v)
	}
}
