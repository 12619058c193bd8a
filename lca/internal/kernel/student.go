package kernel

import (
	"math"
	"math/bits"
)

// Shape is the kernel as a function of the squared distance δ = |B_Lᵀ(x−x_j)|² over p coordinates:
//
//	Gaussian      (2π)^(−p/2) exp(−½δ)
//	Student's t   Γ((ν+p)/2) / (Γ(ν/2) (νπ)^(p/2)) · (1+δ/ν)^(−(ν+p)/2)
//
// with ν degrees of freedom, so that the pull of a far pair is bounded.
type Shape struct {
	DOF int // ν; 0 for the Gaussian
}

// half is (ν+p)/2, the power of a t.
func (s Shape) half(p int) float64 { return 0.5 * float64(s.DOF+p) }

// Log returns the logarithm of the kernel, without its constant.
func (s Shape) Log(delta float64, p int) float64 {
	if s.DOF == 0 {
		return -0.5 * delta
	}
	return -s.half(p) * math.Log1p(delta/float64(s.DOF))
}

// Pull returns what the share λ of a pair is multiplied by in C_L: the pair's expected precision (ν+p)/(ν+δ) under the
// t as a mixture of Gaussians, which makes the M-step exact.
func (s Shape) Pull(delta float64, p int) float64 {
	if s.DOF == 0 {
		return 1
	}
	return float64(s.DOF+p) / (float64(s.DOF) + delta)
}

// Excess returns by how much −log of the kernel's constant exceeds that of a Gaussian, ½ p log 2π.
func (s Shape) Excess(p int) float64 {
	if s.DOF == 0 {
		return 0
	}
	nu := float64(s.DOF)
	top, _ := math.Lgamma(s.half(p))
	bottom, _ := math.Lgamma(0.5 * nu)
	return 0.5*float64(p)*math.Log(0.5*nu) + bottom - top
}

// student is what the rows of a call have in common where kernels are t.
type student[T Float] struct {
	power int     // ν+p
	least T       // of 1/(1+u): a pair below it weighs nothing
	reach float64 // of u: beyond it a pair may be left out of a sparse row
}

// The least weight of a pair, as a power of e. Its square is not subnormal either.
const (
	studentCut32 = -40
	studentCut64 = -344
)

func (s *Scratch[T]) student() { s.studentOf(s.pool.parzen) }

// studentOf is student for kernels over that many coordinates.
func (s *Scratch[T]) studentOf(dims int) {
	p := s.pool
	if p.Shape.DOF == 0 {
		return
	}
	half, cut, sparse := p.Shape.half(dims), float64(studentCut32), float64(sparseCut32)
	if sizeOf[T]() == 8 {
		cut, sparse = studentCut64, sparseCut64
	}
	// By our own exp, because math.Exp does not give the same bits on every processor.
	s.t = student[T]{power: p.Shape.DOF + dims, least: T(exp64(cut / half)), reach: 1/exp64(sparse/half) - 1}
}

// studentRate is r of u = (max − s)·r, so that 1+u = (ν+δ)/(ν+nearest): δ − nearest is twice max − s.
func (p *Neighbours[T]) studentRate(nearest float64) float64 {
	return 2 / (float64(p.Shape.DOF) + nearest)
}

// weighStudent is weighGaussian for t kernels. With Λ the shares times their pulls, whose rows sum to W_i rather than to 1,
//
//	Σ_ij Λ_ij (q_i−z_j)(q_i−z_j)ᵀ = Σ_i W_i (q_i−a_i)(q_i−a_i)ᵀ + ZᵀSZ − Σ_i W_i a_i a_iᵀ,  a_i = (ΛZ)_i/W_i,
//
// so a mean is stored as √W_i a_i and a residual as √W_i (q_i − a_i), and the rest is as for Gaussian kernels.
func (s *Scratch[T]) weighStudent(w *workspace[T], row, q []T, i int, top T) (f factors[T], dense bool) {
	p, m := s.pool, s.m
	m.Nearest[i] = p.distance(s.f, q, s.f.findGE(row, top), p.parzen, math.Inf(1))
	rate := T(p.studentRate(m.Nearest[i]))
	weights := s.list(w, row, top, rate)
	if dense = weights == nil; dense {
		weights = row
		if slot := w.summed; slot < len(w.dense) {
			w.summed++
			s.f.axpy(w.sums, w.row(slot), w.factors[slot].weight)
		}
	}
	sum, pulled, squares := s.f.studentRow(weights, top, rate, s.t.least, s.t.power)
	m.Sum[i] = float64(sum)
	m.Effective[i] = float64(sum) * (float64(sum) / float64(squares))
	weight := p.Shape.Pull(m.Nearest[i], p.parzen) / float64(sum)
	root := math.Sqrt(weight * float64(pulled))
	return factors[T]{T(weight), T(root / float64(pulled)), T(root)}, dense
}

// scaled sets dst to x·factor and returns it.
func scaled[T Float](dst, x []T, factor T) []T {
	for k := range dst {
		dst[k] = T(x[k] * factor)
	}
	return dst
}

// studentRow is expRow for t kernels. With y = 1/(1+u) it replaces each logit by w·y, to which the pull of the pair is
// proportional, where w = y^(power/2) is the kernel relative to that of the nearest neighbour. It returns Σ w, Σ w·y
// and Σ w². The power is by squares, from its highest bit on, and each operation is rounded for itself. An element whose
// y is not above least has weight zero.
func studentRow[T Float](s []T, max, rate, least T, power int) (sum, pulled, squares T) {
	var a, b, c [lanes]T
	high := bits.Len(uint(power>>1)) - 2
	for ; len(s) >= lanes; s = s[lanes:] {
		for l := range lanes {
			u := T(T(max-s[l]) * rate)
			y := T(1 / T(1+u))
			w := y
			for k := high; k >= 0; k-- {
				w = T(w * w)
				if power>>1>>k&1 == 1 {
					w = T(w * y)
				}
			}
			if power&1 == 1 {
				w = T(w * T(math.Sqrt(float64(y))))
			}
			if !(y > least) {
				w, y = 0, 0
			}
			s[l] = T(w * y)
			a[l] += w
			b[l] += s[l]
			c[l] += T(w * w)
		}
	}
	return foldLanes(&a), foldLanes(&b), foldLanes(&c)
}
