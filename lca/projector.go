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
	part        []T
}

// pack sets B to out columns of b over the columns that are active in m: element (i, j) of B is
// b[i·row + j·col]. deviation is the standard deviation of each column.
func (p *projector[T]) pack(m *inForce, b []float64, row, col, out int, centre, deviation []float64) {
	p.dim, p.out = len(centre), out
	p.w = resize(p.w, out*p.dim)
	if len(m.active) < p.dim {
		clear(p.w)
	}
	for j := range out {
		to := p.w[j*p.dim:][:p.dim]
		for i, k := range m.active {
			to[k] = b[i*row+j*col]
		}
	}
	p.coordinates.Pack(centre, p.w, p.dim, out, deviation)
}

// apply writes the coordinates of each row of x to dst, whose rows are stride apart.
func (p *projector[T]) apply(dst []T, stride int, x []float64) {
	rows := len(x) / p.dim
	if stride == p.out {
		p.coordinates.Apply(dst, x, rows)
		return
	}
	p.part = resize(p.part, rows*p.out)
	p.coordinates.Apply(p.part, x, rows)
	for i := range rows {
		copy(dst[i*stride:][:p.out], p.part[i*p.out:])
	}
}

// offset sets dst to Bᵀ(μ−c).
func (p *projector[T]) offset(dst, mean, centre []float64) []float64 {
	dst = resize(dst, p.out)
	for j := range dst {
		sum := 0.0
		for k, w := range p.w[j*p.dim:][:p.dim] {
			sum = math.FMA(w, mean[k]-centre[k], sum)
		}
		dst[j] = sum
	}
	return dst
}
