package kernel

import (
	"fmt"
	"math"
)

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
