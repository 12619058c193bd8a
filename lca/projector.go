package lca

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// projector brings rows of the input into some of the coordinates Bᵀ(x−c).
type projector[T kernel.Float] struct {
	dim, out    int
	w           []float64 // Bᵀ over all columns, out×dim
	coordinates kernel.Coordinates[T]
	moved       []float64
}

// pack sets B to out columns of b over the columns that are active in m: element (i, j) of B is
// b[i·row + j·col]. deviation is the standard deviation of each column.
func (p *projector[T]) pack(m *inForce, b []float64, row, col, out int, centre, deviation []float64) {
	p.dim, p.out = len(centre), out
	p.w = resize(p.w, out*p.dim)
	if len(m.active) < p.dim {
		clear(p.w)
	}
	const line = 8 // coordinates at a time: a line of the cache
	for first := 0; first < out; first += line {
		for i, k := range m.active {
			for j := first; j < min(first+line, out); j++ {
				p.w[j*p.dim+k] = b[i*row+j*col]
			}
		}
	}
	p.coordinates.Pack(centre, p.w, p.dim, out, deviation)
}

// offset sets dst to Bᵀ(μ−c), four coordinates at a time: each is one chain of multiply-adds.
func (p *projector[T]) offset(dst, mean, centre []float64) []float64 {
	dst, p.moved = resize(dst, p.out), resize(p.moved, p.dim)
	for k, v := range mean[:p.dim] {
		p.moved[k] = v - centre[k]
	}
	j, dim := 0, p.dim
	for ; j+4 <= p.out; j += 4 {
		w := p.w[j*dim:][:4*dim]
		a, b, c, d := w[:dim], w[dim:2*dim], w[2*dim:3*dim], w[3*dim:]
		var s [4]float64
		for k, v := range p.moved {
			s[0], s[1] = math.FMA(a[k], v, s[0]), math.FMA(b[k], v, s[1])
			s[2], s[3] = math.FMA(c[k], v, s[2]), math.FMA(d[k], v, s[3])
		}
		copy(dst[j:], s[:])
	}
	for ; j < p.out; j++ {
		dst[j] = 0
		for k, w := range p.w[j*dim:][:dim] {
			dst[j] = math.FMA(w, p.moved[k], dst[j])
		}
	}
	return dst
}
