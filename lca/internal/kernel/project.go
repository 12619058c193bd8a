package kernel

import (
	"fmt"
	"math"
	"slices"
)

// Projection is y = W(x−μ), packed. The zero value is empty; after Pack it is immutable and may be
// used by many goroutines, each with its own Scratch.
type Projection struct {
	dim, out int // W is out×dim
	mean     []float64
	panels   []float64 // panel p holds rows p·16 … p·16+15 of W, transposed
	depths   []int     // of each panel: the columns of W that are multiplied; those that follow are zero
	depth    [1]int    // memory of depths, of one panel
}

// Reserve makes room for a W of out×dim in the front of memory, and returns the rest. Numbers that are used together then lie together.
func (p *Projection) Reserve(memory []float64, dim, out int) (rest []float64) {
	n, all := ceil(out, panelWidth[float64]())*dim, ProjectionSize(dim, out)
	p.panels, p.mean = memory[:0:n], memory[n:n:all]
	return memory[all:]
}

// ProjectionSize returns how many numbers Reserve takes: whole cache lines.
func ProjectionSize(dim, out int) int {
	return ceil(out, panelWidth[float64]())*dim + ceil(dim, cacheLine/8)
}

// Aligned returns n numbers that begin on a cache line.
func Aligned(n int) []float64 { return grow[float64](nil, n) }

// Pack sets μ (dim numbers) and W (out×dim, row by row).
func (p *Projection) Pack(mean, w []float64, dim, out int) {
	if dim < 1 || out < 0 || len(mean) < dim || len(w) < out*dim {
		panic(fmt.Sprintf("kernel: pack a projection of %d×%d from %d weights and a mean of %d", out, dim, len(w), len(mean)))
	}
	width := panelWidth[float64]()
	p.dim, p.out = dim, out
	p.mean = append(p.mean[:0], mean[:dim]...)
	p.panels = grow(p.panels, ceil(out, width)*dim)
	packPoints(functionsOf[float64](), p.panels, w, out, dim, dim)
	if p.depths == nil {
		p.depths = p.depth[:0]
	}
	p.depths = depthsOf(p.depths, w, dim, out, width)
}

// depthsOf returns, for each group of width rows of W, the number of columns before the zeros that end all of these
// rows. Zeros add nothing to a chain of finite terms, so they need not be multiplied: in a triangular W, half.
func depthsOf(depths []int, w []float64, dim, out, width int) []int {
	depths = depths[:0]
	for first := 0; first < out; first += width {
		depth := 0
		for r := first; r < min(first+width, out); r++ {
			k := dim
			for k > depth && w[r*dim+k-1] == 0 {
				k--
			}
			depth = max(depth, k)
		}
		depths = append(depths, depth)
	}
	return depths
}

// view is a matrix that results are written to: element c of row r is data[c/w·step + c%w + r·ld], where w is the
// width of a panel.
type view[T Float] struct {
	data     []T
	ld, step int
}

// rowView is the view of a matrix that is stored row by row.
func rowView[T Float](data []T, ld int) view[T] {
	return view[T]{data: data, ld: ld, step: panelWidth[T]()}
}

// from returns the data from column c of the first row on.
func (v view[T]) from(c int) []T {
	w := panelWidth[T]()
	return v.data[c/w*v.step+c%w:]
}

// PropagatesNonFinite reports whether a NaN or Inf in x always shows in the coordinates: false if a column of W is
// left out of all products.
func (p *Projection) PropagatesNonFinite() bool { return slices.Contains(p.depths, p.dim) }

// Project writes the out coordinates of each row of x (rows×dim). The mean is subtracted first, the
// chain of multiply-adds is float64, k ascending, and only its end is rounded if T is float32. A float32 in x is
// converted to float64 first, so it gives the same bits as the same number in float64.
func Project[T, X Float](p *Projection, dst []T, s *Scratch[float64], x []X, rows int) {
	if len(x) < rows*p.dim || len(dst) < rows*p.out {
		panic(fmt.Sprintf("kernel: project %d rows of %d from %d numbers into %d", rows, p.dim, len(x), len(dst)))
	}
	s.begin()
	for first := 0; first < rows; first += streamRows {
		n := min(streamRows, rows-first)
		centreRows(p, s, x[first*p.dim:], n)
		next := x[(first+n)*p.dim : min(first+2*n, rows)*p.dim]
		multiplyPrefetch(p, rowView(dst[first*p.out:], p.out), s, n, bytesOf(next))
	}
	s.end()
}

// centreRows writes rows of x less μ to the buffers of s, at a stride that suits the cache.
func centreRows[X Float](p *Projection, s *Scratch[float64], x []X, rows int) {
	w, ld, use := s.space(0), stride[float64](p.dim), active()
	w.q = grow(w.q, projectRows*ld)
	switch x := any(x).(type) {
	case []float32:
		use.centreFromF32(w.q, ld, x, p.mean, rows)
	case []float64:
		use.centre(w.q, ld, x, p.mean, rows)
	}
}

// multiply writes W times the centred rows to dst, rounded to T.
func multiply[T Float](p *Projection, dst view[T], s *Scratch[float64], rows int) {
	multiplyPrefetch(p, dst, s, rows, nil)
}

// multiplyPrefetch is multiply; it prefetches next while it computes, if the implementation can.
func multiplyPrefetch[T Float](p *Projection, dst view[T], s *Scratch[float64], rows int, next []byte) {
	w, ld, width, use := s.space(0), stride[float64](p.dim), panelWidth[float64](), active()
	w.tile = grow(w.tile, projectRows*width)
	for c := 0; c < p.out; c += width {
		cols, out, panel, depth := min(width, p.out-c), dst.from(c), p.panels[c*p.dim:], p.depths[c/width]
		if cols == width {
			switch to := any(out).(type) {
			case []float64:
				s.f.tile(to, dst.ld, s.zero, 0, w.q, ld, 1, panel, width, depth, rows, width)
			case []float32:
				prefetched := use.tileF32(to, dst.ld, w.q, ld, panel, depth, rows, next)
				next = next[min(prefetched, len(next)):]
			}
			continue
		}
		s.f.tile(w.tile, width, s.zero, 0, w.q, ld, 1, panel, width, depth, rows, cols)
		for r := range rows {
			to := out[r*dst.ld:][:cols]
			for k, v := range w.tile[r*width:][:cols] {
				to[k] = T(v)
			}
		}
	}
}

// centre writes x − mean for each row of x; the rows of dst are ld apart.
func centre[X Float](dst []float64, ld int, x []X, mean []float64, rows int) {
	centreColumns(0, dst, ld, x, mean, rows)
}

// centreColumns is centre for the columns from first on.
func centreColumns[X Float](first int, dst []float64, ld int, x []X, mean []float64, rows int) {
	for r := range rows {
		to, from := dst[r*ld:][:len(mean)], x[r*len(mean):][:len(mean)]
		for k := first; k < len(mean); k++ {
			to[k] = float64(from[k]) - mean[k]
		}
	}
}

// tileF32 is tile64 for a full panel, starting from zero, with its results rounded to float32. An implementation may
// prefetch next while it computes; it returns the bytes prefetched.
func tileF32(c []float32, ldc int, a []float64, rs int, b []float64, depth, rows int, _ []byte) (prefetched int) {
	var zero, row [TileWidth]float64
	for r := range rows {
		tile64(row[:], 0, zero[:], 0, a[r*rs:], 0, 1, b, TileWidth, depth, 1, TileWidth)
		to := c[r*ldc:][:TileWidth]
		for k, v := range row {
			to[k] = float32(v)
		}
	}
	return 0
}

// Projection32 is a [Projection] in float32: y = W(x−μ) with the mean subtracted in float64, the difference
// and W rounded, and the chain of multiply-adds in float32. It is twice as fast; its error is at most
// about dim·2⁻²⁴·Σ_k|w_k||x_k−μ_k|, so it suits metrics in whose rows terms do not cancel.
type Projection32 struct {
	dim, out int
	mean     []float64
	panels   []float32
	depths   []int     // as in Projection
	w32      []float32 // W in float32, row by row
	zero     []float64 // a mean of zeros
}

// float32Limit is the largest weightedNorm1 of a row of W in float32, so that rounding errors stay below a thousandth
// of the kernel's width.
const float32Limit = 1 << 11

// Float32Suffices reports whether W (out×dim) may be applied by a [Projection32] to rows whose columns have the
// given standard deviations: whether no coordinate is a small difference of large numbers.
func Float32Suffices(w []float64, dim, out int, deviation []float64) bool {
	for ; out > 0; out, w = out-1, w[dim:] {
		if !(weightedNorm1(w[:dim], deviation) <= float32Limit) {
			return false
		}
	}
	return true
}

// weightedNorm1 returns Σ_k|w_k|deviation_k, in four partial sums, so that additions overlap.
func weightedNorm1(w, deviation []float64) float64 {
	var a, b, c, d float64
	k := 0
	for ; k+4 <= len(w); k += 4 {
		x, y := (*[4]float64)(w[k:]), (*[4]float64)(deviation[k:])
		a, b = a+float64(math.Abs(x[0])*y[0]), b+float64(math.Abs(x[1])*y[1])
		c, d = c+float64(math.Abs(x[2])*y[2]), d+float64(math.Abs(x[3])*y[3])
	}
	for ; k < len(w); k++ {
		a += float64(math.Abs(w[k]) * deviation[k])
	}
	return (a + c) + (b + d)
}

// Pack sets μ (dim numbers) and W (out×dim, row by row).
func (p *Projection32) Pack(mean, w []float64, dim, out int) {
	if dim < 1 || out < 0 || len(mean) < dim || len(w) < out*dim {
		panic(fmt.Sprintf("kernel: pack a projection of %d×%d from %d weights and a mean of %d", out, dim, len(w), len(mean)))
	}
	width := panelWidth[float32]()
	p.dim, p.out = dim, out
	p.mean = append(p.mean[:0], mean[:dim]...)
	p.w32 = grow(p.w32, out*dim)
	p.zero = grow(p.zero, dim)
	clear(p.zero)
	for r, use := 0, active(); r < out*dim; r += dim {
		use.centreF32(p.w32[r:][:dim], w[r:], p.zero)
	}
	p.panels = grow(p.panels, ceil(out, width)*dim)
	packPoints(functionsOf[float32](), p.panels, p.w32, out, dim, dim)
	p.depths = depthsOf(p.depths, w, dim, out, width)
}

// centre returns rows of x less μ in float32, at a stride that suits the cache.
func (p *Projection32) centre(s *Scratch[float32], x []float64, rows int) []float32 {
	w, ld, use := s.space(0), stride[float32](p.dim), active()
	w.q = grow(w.q, projectRows*ld)
	for r := range rows {
		use.centreF32(w.q[r*ld:][:p.dim], x[r*p.dim:][:p.dim], p.mean)
	}
	return w.q
}

// multiply writes W times the centred rows q to dst. Full panels go there directly. It prefetches next while it
// computes, if the implementation can.
func (p *Projection32) multiply(dst view[float32], s *Scratch[float32], q []float32, rows int, next []byte) {
	w, ld, width, use := s.space(0), stride[float32](p.dim), panelWidth[float32](), active()
	w.tile = grow(w.tile, projectRows*width)
	for c := 0; c < p.out; c += width {
		cols, out, depth := min(width, p.out-c), dst.from(c), p.depths[c/width]
		if cols == width {
			prefetched := use.tilePrefetch(out, dst.ld, s.zero, q, ld, p.panels[c*p.dim:], depth, rows, next)
			next = next[min(prefetched, len(next)):]
			continue
		}
		s.f.tile(w.tile, width, s.zero, 0, q, ld, 1, p.panels[c*p.dim:], width, depth, rows, cols)
		for r := range rows {
			copy(out[r*dst.ld:][:cols], w.tile[r*width:])
		}
	}
}

// centreF32 writes x − mean, subtracted in float64 and then rounded.
func centreF32(dst []float32, x, mean []float64) {
	for k, v := range x[:len(dst)] {
		dst[k] = float32(v - mean[k])
	}
}
