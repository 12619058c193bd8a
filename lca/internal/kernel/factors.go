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

// UpdateFactors is [Update] with the factors of Ĉ in place of Upper, which is left as it was. Residual and Mean must have room for
// the rows, and Weight for the pool: to its numbers those of the rows are added.
func UpdateFactors[T Float](m *Moments, f Factors, s *Scratch[T], q []T, rows int, p *Neighbours[T], ex Exclusion) {
	if n := rows * p.dim; len(f.Residual) < n || len(f.Mean) < n || len(f.Weight) < p.n {
		panic(fmt.Sprintf("kernel: factors of %d rows and %d points of %d coordinates in %d, %d and %d numbers", rows, p.n, p.dim, len(f.Residual), len(f.Mean), len(f.Weight)))
	}
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
