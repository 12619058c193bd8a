package lca

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Gain is how many nats −log p of a row would fall by if one column had its best other value and the rest stayed.
type Gain struct {
	Column int
	Nats   float64
}

// blame is what Scorer.Why needs besides the scores.
type blame struct {
	parts         prop1.Parts // empty once they are prepared for
	bl, bg        []float64   // B_L and B_G, by rows
	local, global []float64   // |row k of B_L|² and |row k of B_G|²
}

// prepare makes what Why needs.
func (b *blame) prepare(dim int) {
	if b.local == nil {
		b.bl, b.local = byRows(b.parts.BL, dim)
		b.bg, b.global = byRows(b.parts.BG, dim)
		b.parts = prop1.Parts{}
	}
}

// byRows returns the elements of a matrix and the squares of its rows' lengths.
func byRows(b *mat.Dense, dim int) (elements, squares []float64) {
	squares = make([]float64, dim)
	n := prop1.Columns(b)
	if n == 0 {
		return nil, squares
	}
	elements = linalg.Elements(b)
	for k := range squares {
		squares[k] = kernel.NormSquared(elements[k*n : (k+1)*n])
	}
	return elements, squares
}

// Why writes which columns make −log p of each row as high as it is, the largest gain first: len(dst)/rows of them for each
// row. With g the gradient of −log p and P_L, P_G = B_LB_Lᵀ, B_GB_Gᵀ, the gain of column k is
//
//	½ g_k² / (P_L + P_G)_kk
//
// which is exact where one neighbour has all the responsibility for the row. It is so for t kernels too, where the pull of the
// neighbours grows as the row comes nearer: see studentGain. The gain of a constant column is all of
// its part in the score. A row whose score is not
// finite has NaN. x is row-major. It allocates nothing after the first call.
func (s *Scorer) Why(dst []Gain, x []float64, rows int) {
	if rows == 0 {
		return
	}
	s.pack()
	s.blame.prepare(s.dim)
	p, most := s.parzen, len(dst)/rows
	s.lse, s.g = linalg.Resize(s.lse, rows), linalg.Resize(s.g, rows*s.gaussian)
	s.pull, s.residual = linalg.Resize(s.pull, rows), linalg.Resize(s.residual, rows*p)
	if p > 0 {
		s.z = linalg.Resize(s.z, rows*p)
		kernel.Project(&s.local, s.z, &s.scratch, x, rows)
		kernel.Attract(s.lse, s.pull, s.residual, &s.scratch, s.z, rows, &s.neighbours)
		for k, centre := range s.residual {
			s.residual[k] = s.z[k] - centre
		}
	}
	if s.gaussian > 0 {
		kernel.Project(&s.global, s.g, &s.scratch, x, rows)
	}
	for i := range rows {
		largest := dst[i*most : (i+1)*most]
		for k := range largest {
			largest[k] = Gain{-1, math.Inf(-1)}
		}
		for k := range s.dim {
			if s.blame.local[k]+s.blame.global[k] == 0 {
				insert(largest, Gain{k, prop1.Departure(x[i*s.dim+k], s.model.Mean[k])})
			} else {
				insert(largest, Gain{k, s.gain(i, k)})
			}
		}
	}
}

// gain returns the gain of column k of row i, which has weight.
func (s *Scorer) gain(i, k int) float64 {
	b, p, g := &s.blame, s.parzen, s.gaussian
	along, across := 0.0, 0.0 // of the gradients of half the squares
	for c, v := range s.residual[i*p : (i+1)*p] {
		along += float64(b.bl[k*p+c] * v)
	}
	for c, v := range s.g[i*g : (i+1)*g] {
		across += float64(b.bg[k*g+c] * v)
	}
	if p > 0 && s.neighbours.Shape.DOF > 0 {
		return studentGain(s.neighbours.Shape.DOF, p, s.pull[i], along, b.local[k], across, b.global[k])
	}
	sum := along + across
	return 0.5 * sum * sum / (b.local[k] + b.global[k])
}

// studentGain is the largest decrease over t of
//
//	½(ν+p) log(ν + δ + 2at + At²) + bt + ½Bt²
//
// which is −log p along a column, t away from the row, where one neighbour at squared distance δ has all the responsibility;
// with several, ν+δ is (ν+p)/pull and a the product of the column of B_L with the row's distance from their centre, and the
// gradient is right. Each of the two terms falls towards its own best value, so the best of both lies between. From either
// side, the best value for the pull at the last one comes ever nearer to it and never passes it.
func studentGain(dof, p int, pull, a, localSquare, b, globalSquare float64) float64 {
	half := 0.5 * float64(dof+p)
	spread := 2 * half / pull // ν+δ
	if localSquare == 0 {
		return 0.5 * b * b / globalSquare
	}
	least := max(spread-a*a/localSquare, float64(dof)) // ν+δ where the first term is least
	from := a / localSquare                            // t measured from there
	if globalSquare == 0 {
		return half * math.Log(spread/least)
	}
	to := from - b/globalSquare // where the second term is least
	gain := func(t float64) float64 {
		return half*math.Log(spread/(least+localSquare*t*t)) + 0.5*globalSquare*((from-to)*(from-to)-(t-to)*(t-to))
	}
	best := 0.0
	for _, t := range [2]float64{0, to} {
		for range 100 {
			w := globalSquare * (least + localSquare*t*t) / (2 * half * localSquare)
			next := to * w / (1 + w)
			done := math.Abs(next-t) <= 1e-9*math.Abs(to)
			if t = next; done {
				break
			}
		}
		best = max(best, gain(t))
	}
	if pull != pull || from != from || to != to {
		return math.NaN()
	}
	return best
}

// insert puts g into a list that descends, and drops what no longer fits. NaN comes last.
func insert(list []Gain, g Gain) {
	for k := range list {
		if g.Nats > list[k].Nats || list[k].Column < 0 {
			list[k], g = g, list[k]
		}
	}
}
