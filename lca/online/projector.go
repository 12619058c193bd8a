package online

import (
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// projector brings rows of the input into some of the coordinates Bᵀ(x−c).
type projector[T kernel.Float] struct {
	out         int
	w           []float64 // Bᵀ over all columns, out×dim
	coordinates kernel.Coordinates[T]
	one         []T // row
}

// pack sets B to out columns of b over the columns that are active in m: element (i, j) of B is
// b[i·row + j·col]. deviation is the standard deviation of each column.
func (p *projector[T]) pack(m *metricState, b []float64, row, col, out int, centre, deviation []float64) {
	dim := len(centre)
	p.out = out
	if len(m.Active) == dim && row == 1 && col == dim {
		p.coordinates.Pack(centre, b, dim, out, deviation)
		return
	}
	p.w = linalg.Resize(p.w, out*dim)
	if len(m.Active) < dim {
		clear(p.w)
	}
	const line = 8 // coordinates at a time: a line of the cache
	for first := 0; first < out; first += line {
		for i, k := range m.Active {
			for j := first; j < min(first+line, out); j++ {
				p.w[j*dim+k] = b[i*row+j*col]
			}
		}
	}
	p.coordinates.Pack(centre, p.w, dim, out, deviation)
}

// of writes the coordinates of one row.
func (p *projector[T]) of(dst []float64, x []float64) []float64 {
	dst, p.one = linalg.Resize(dst, p.out), linalg.Resize(p.one, p.out)
	p.coordinates.Apply(p.one, x, 1)
	for k, v := range p.one {
		dst[k] = float64(v)
	}
	return dst
}
