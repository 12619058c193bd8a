package linalg

import "math"

// polar holds the buffers of Polar.
type polar struct{ gram, factor, x, next []float64 }

const (
	polarRegular = 1e-10 // of squares: where A loses more than five digits there is no one answer
	polarSteps   = 30    // rarely more than six
)

// Polar replaces the m×n matrix A = U S Vᵀ, m ≥ n, by U Vᵀ, the matrix with orthonormal columns that is nearest to
// it (Fan and Hoffman 1955). It returns false, and leaves A as it was, where A is nearly singular.
//
// The dynamically weighted Halley iteration (Nakatsukasa, Bai, Gygi, SIAM Journal on Matrix Analysis 31, 2010), which
// needs products and Cholesky factors alone, takes all singular values from between l and 1 to near 1 in a few steps,
//
//	X ← (b/c) X + (a − b/c) X (I + c XᵀX)⁻¹
//
// and a step of Newton and Schulz, X ← X (3I − XᵀX)/2, wins the last digits.
func (w *Workspace) Polar(a []float64, m, n int) bool {
	p := &w.polar
	p.gram, p.factor = Resize(p.gram, n*n), Resize(p.factor, n*n)
	p.x, p.next = Resize(p.x, m*n), Resize(p.next, m*n)
	copy(p.x, a[:m*n])
	w.polarGram(m, n)
	norm := largestRowSum(p.gram, n, 0) // no square of a singular value is larger
	copy(p.factor, p.gram)
	if w.CholeskyLower(p.factor, n) != nil {
		return false
	}
	least := math.Inf(1)
	for i := range n {
		least = math.Min(least, p.factor[i*n+i]*p.factor[i*n+i])
	}
	if !(least > polarRegular*norm) || math.IsInf(norm, 1) {
		return false
	}
	scale(p.x, 1/math.Sqrt(norm))
	scale(p.gram, 1/norm)
	l := math.Sqrt(least/norm) / 2 // about the least singular value; a guess that is too large costs a step
	for range polarSteps {
		off := largestRowSum(p.gram, n, 1)
		if off < 0.1 {
			w.schulz(m, n)
			if off < 3e-8 { // then what is left is off²·3/4
				copy(a, p.x[:m*n])
				return true
			}
		} else if l = w.halley(l, m, n); l == 0 {
			return false
		}
		w.polarGram(m, n)
	}
	return false
}

// polarGram sets gram to XᵀX.
func (w *Workspace) polarGram(m, n int) {
	clear(w.polar.gram)
	w.AddGram(w.polar.gram, w.polar.x, m, n)
	Mirror(w.polar.gram, n)
}

// schulz is X ← X (3I − XᵀX)/2.
func (w *Workspace) schulz(m, n int) {
	p := &w.polar
	scale(p.gram, -0.5)
	for i := range n {
		p.gram[i*n+i] += 1.5
	}
	w.polarTimes(p.gram, m, n)
}

// halley is a step for singular values from l to 1; it returns where the least then is, 0 when that fails.
func (w *Workspace) halley(l float64, m, n int) float64 {
	p, square := &w.polar, l*l
	gamma := math.Cbrt(4 * (1 - square) / (square * square))
	root := math.Sqrt(1 + gamma)
	a := root + 0.5*math.Sqrt(8-4*gamma+8*(2-square)/(square*root))
	b := (a - 1) * (a - 1) / 4
	c := a + b - 1
	scale(p.gram, c)
	for i := range n {
		p.gram[i*n+i]++
	}
	if w.CholeskyLower(p.gram, n) != nil {
		return 0
	}
	w.invertLower(p.gram, n, n)
	clear(p.factor)
	w.AddGram(p.factor, p.gram, n, n) // (I + c XᵀX)⁻¹ = L⁻ᵀ L⁻¹
	Mirror(p.factor, n)
	scale(p.factor, a-b/c)
	for i := range n {
		p.factor[i*n+i] += b / c
	}
	w.polarTimes(p.factor, m, n)
	return math.Min(1, l*(a+b*square)/(1+c*square))
}

// polarTimes is X ← X P.
func (w *Workspace) polarTimes(by []float64, m, n int) {
	p := &w.polar
	w.Product(p.next, n, Dense(p.x, n), Dense(by, n), m, n, n, Set)
	p.x, p.next = p.next, p.x
}

func scale(a []float64, s float64) {
	for k := range a {
		a[k] *= s
	}
}

// largestRowSum is that of |A − shift·I|, which no eigenvalue of the symmetric A − shift·I exceeds.
func largestRowSum(a []float64, n int, shift float64) (largest float64) {
	for i := range n {
		sum := 0.0
		for j, v := range a[i*n:][:n] {
			if j == i {
				v -= shift
			}
			sum += math.Abs(v)
		}
		largest = math.Max(largest, sum)
	}
	return largest
}
