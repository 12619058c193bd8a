package kernel

import "fmt"

// Factors is Ĉ of [Update], not multiplied out: with R and M of rows×dim and a weight w for each point of the pool,
//
//	Ĉ = RᵀR + Σ_j w_j z_j z_jᵀ − MᵀM
//
// It takes rows·dim numbers where Ĉ takes dim², and no product of order rows·dim².
type Factors struct {
	Residual, Mean []float64 // R = Q − ΛZ and M = ΛZ, row by row
	Weight         []float64 // w = λᵀ1
}

// Inner is the inner products of rows and points, where they come from others:
//
//	q_i·z_j = Factor·Gram_ij + Left_i·Right_j
//
// with as many numbers in each row of Left and Right as in Rank. In a metric that is a multiple of the identity except in a few directions Gram stays as
// it is from step to step, so that a step takes rows·points·rank operations in place of rows·points·dim.
type Inner[T Float] struct {
	Gram        []T // rows × points
	Factor      T
	Left, Right []T
	Rank        int
	Loss        float64 // by how much larger the terms are than |q||z|, at least 1: what near copies are told by loses as much

	panels []T
}

// UpdateFactors is [Update] with the factors of Ĉ in place of Upper, which is left as it was. Residual and Mean must have room for
// the rows, and Weight for the pool: to its numbers those of the rows are added. inner may be nil.
func UpdateFactors[T Float](m *Moments, f Factors, s *Scratch[T], q []T, rows int, p *Neighbours[T], ex Exclusion, inner *Inner[T]) {
	if n := rows * p.dim; len(f.Residual) < n || len(f.Mean) < n || len(f.Weight) < p.n {
		panic(fmt.Sprintf("kernel: factors of %d rows and %d points of %d coordinates in %d, %d and %d numbers", rows, p.n, p.dim, len(f.Residual), len(f.Mean), len(f.Weight)))
	}
	if inner != nil {
		inner.pack(rows, p.n)
	}
	s.inner = inner
	s.update(m, q, rows, p, ex)
	defer s.end()
	width := panelWidth[T]()
	for c := 0; c < p.dim; c += width {
		cols := min(width, p.dim-c)
		for i := range rows {
			from, to := c*rows+i*width, i*p.dim+c
			widen(f.Residual[to:][:cols], s.residual[from:])
			widen(f.Mean[to:][:cols], s.mean[from:])
		}
	}
	for j, v := range s.weight[:p.n] {
		f.Weight[j] += v
	}
}

func widen[T Float](dst []float64, src []T) {
	for k := range dst {
		dst[k] = float64(src[k])
	}
}

// pack checks the sizes and prepares Right for products.
func (in *Inner[T]) pack(rows, points int) {
	if len(in.Gram) < rows*points || len(in.Left) < rows*in.Rank || len(in.Right) < points*in.Rank {
		panic(fmt.Sprintf("kernel: products of %d rows and %d points from %d, %d and %d numbers", rows, points, len(in.Gram), len(in.Left), len(in.Right)))
	}
	in.panels = grow(in.panels, ceil(points, panelWidth[T]())*in.Rank)
	packPoints(functionsOf[T](), in.panels, in.Right, points, in.Rank, in.Rank)
}

// logits is Scratch.logits.
func (in *Inner[T]) logits(s *Scratch[T], w *workspace[T], first int, bias []T) {
	n, width := s.pool.n, panelWidth[T]()
	for r := range w.rows {
		row := w.row(r)
		copy(row, bias)
		for j, v := range in.Gram[(first+r)*n:][:n] {
			row[j] += T(in.Factor * v)
		}
	}
	for j := 0; j < w.length && in.Rank > 0; j += width {
		s.f.tile(w.logits[j:], w.ld, w.logits[j:], w.ld, in.Left[first*in.Rank:], in.Rank, 1, in.panels[j*in.Rank:], width, in.Rank, w.rows, width)
	}
}
