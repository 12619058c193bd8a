package lca

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

const (
	descentSteps  = 40   // at most, of conjugate gradients
	descentLevel  = 1e-2 // a direction is at its minimum when the slope of the moment is below this share of it
	descentMerged = 0.99 // of directions whose cosine is above this only one goes on
)

// direction is a unit vector w that descends to a local minimum of the fourth moment E[(wᵀz)⁴] of rows z: by conjugate gradients on the
// sphere (Polak and Ribière), each step to the first minimum along a great circle. Along w cos θ + p sin θ the moment is
//
//	Σ_k (4 over k) a_k cos^(4−k) θ sin^k θ,   a_k = E[(wᵀz)^(4−k) (pᵀz)^k]
//
// so that finding it takes no more products with the rows than a step of fixed length. The minima of noise are flat: such
// steps would take hundreds.
type direction struct {
	w, p   []float64 // where it is, and where it moves
	u      []float64 // wᵀz of each row
	slope  []float64 // the gradient of a fourth of the moment along the sphere, at the step before
	square float64   // its squared length; 0 before the first step
	fourth float64   // E[(wᵀz)⁴]
}

// descend returns where directions that start from the rows of w end, one of those that end together.
func descend(ctx context.Context, w, z *mat.Dense) (level []direction, err error) {
	starts, d := w.Dims()
	n, _ := z.Dims()
	going := make([]direction, starts)
	for i := range going {
		going[i] = direction{w: w.RawRowView(i), p: make([]float64, d), u: make([]float64, n), slope: make([]float64, d)}
	}
	var along, gradients rowProducts
	for i, u := range along.of(going, z.T(), func(dst []float64, v *direction) { copy(dst, v.w) }) {
		copy(going[i].u, u)
	}
	for step := 0; len(going) > 0; step++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		all := distinct(going)
		going = going[:0]
		for i, gradient := range gradients.of(all, z, cubes) {
			if v := all[i]; v.turn(gradient) && step < descentSteps {
				going = append(going, v)
			} else {
				level = append(level, v)
			}
		}
		for i, u := range along.of(going, z.T(), func(dst []float64, v *direction) { copy(dst, v.p) }) {
			going[i].move(u)
		}
	}
	return level, nil
}

// distinct returns the directions without those that are near one before them, and so go where it goes.
func distinct(all []direction) []direction {
	kept := all[:0]
next:
	for _, v := range all {
		for _, o := range kept {
			if math.Abs(floats.Dot(v.w, o.w)) > descentMerged {
				continue next
			}
		}
		kept = append(kept, v)
	}
	return kept
}

// cubes sets dst to (wᵀz)³/n of each row: times the rows this is the gradient of a fourth of the moment.
func cubes(dst []float64, v *direction) {
	n := float64(len(dst))
	for i, u := range v.u {
		dst[i] = u * u * u / n
	}
}

// turn chooses where to move, given the gradient; false if there is nowhere to go.
func (v *direction) turn(gradient []float64) bool {
	v.fourth = floats.Dot(v.w, gradient)
	floats.AddScaled(gradient, -v.fourth, v.w)
	square, conjugate := floats.Dot(gradient, gradient), 0.0
	if v.square > 0 {
		conjugate = max(0, (square-floats.Dot(gradient, v.slope))/v.square)
	}
	v.square = square
	copy(v.slope, gradient)
	if math.Sqrt(square) <= descentLevel*v.fourth {
		return false
	}
	floats.Scale(conjugate, v.p)
	floats.Sub(v.p, gradient)
	floats.AddScaled(v.p, -floats.Dot(v.p, v.w), v.w)
	if !(floats.Dot(v.p, gradient) < 0) {
		floats.ScaleTo(v.p, -1, gradient)
	}
	normalise(v.p)
	return true
}

// move goes to the first minimum along p; along is pᵀz of each row.
func (v *direction) move(along []float64) {
	var a [5]float64
	for i, u := range v.u {
		q := along[i]
		uu, uq, qq := u*u, u*q, q*q
		a[0] += uu * uu
		a[1] += uu * uq
		a[2] += uu * qq
		a[3] += uq * qq
		a[4] += qq * qq
	}
	t := firstMinimum(a)
	cos := 1 / math.Sqrt(1+t*t)
	sin := t * cos
	for i, u := range v.u {
		v.u[i] = cos*u + sin*along[i]
	}
	for k, w := range v.w {
		v.w[k], v.p[k] = cos*w+sin*v.p[k], cos*v.p[k]-sin*w
	}
}

// firstMinimum returns tan θ, at least 0, of the first minimum of the moment along a circle, given its a_k: the first zero t of
//
//	a₁ + (3a₂−a₀) t + 3(a₃−a₁) t² + (a₄−3a₂) t³ − a₃ t⁴
//
// which is the derivative times a positive number, and negative at 0.
func firstMinimum(a [5]float64) float64 {
	slope := func(t float64) float64 {
		return a[1] + t*(3*a[2]-a[0]+t*(3*(a[3]-a[1])+t*(a[4]-3*a[2]-t*a[3])))
	}
	const first, last = 1. / 16, 16
	low, high := 0.0, first
	for ; !(slope(high) > 0); low, high = high, 2*high {
		if high >= last { // nearly a right angle
			return high
		}
	}
	for range 30 {
		if t := 0.5 * (low + high); slope(t) > 0 {
			high = t
		} else {
			low = t
		}
	}
	return 0.5 * (low + high)
}

// rowProducts multiplies a row of numbers for each direction with a matrix. Its fields are buffers.
type rowProducts struct {
	rows, out []float64
	each      [][]float64
}

// of returns the products of the rows that set sets with m. They are valid until the next call.
func (b *rowProducts) of(all []direction, m mat.Matrix, set func(dst []float64, v *direction)) [][]float64 {
	k, n := m.Dims()
	b.each = b.each[:0]
	if len(all) == 0 {
		return b.each
	}
	b.rows, b.out = linalg.Resize(b.rows, len(all)*k), linalg.Resize(b.out, len(all)*n)
	for i := range all {
		set(b.rows[i*k:][:k], &all[i])
		b.each = append(b.each, b.out[i*n:][:n])
	}
	linalg.Mul(mat.NewDense(len(all), n, b.out), mat.NewDense(len(all), k, b.rows), m)
	return b.each
}
