package lca

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

const (
	kurtosisStarts = 60  // random directions that descend; most end in few distinct minima
	kurtosisMost   = 4   // directions taken at most, and so the largest Parzen part started from
	kurtosisSame   = 0.9 // directions whose cosine is above this are the same minimum
	kurtosisRatio  = 1. / 9
)

// Candidate is one of the models that Search compared.
type Candidate struct {
	Name   string  // "red", or "kurtosis 1" … "kurtosis 4"
	NLL    float64 // on the rows that judge, nats per row; +Inf where it collapsed
	Parzen int     // d_P
	Model  *Model  // nil where it collapsed
}

// Search fits LCA-Gauss-Red, and LCA-Gauss from 1 to 4 directions of minimum kurtosis, and returns
// the model with the lowest NLL on fresh rows that are not among those of x. It goes beyond the paper:
// from C_G alone EM misses optima that exist, and clusters and rings are flat, which a low fourth moment
// finds. Without fresh rows (nil) it judges by the leave-one-out NLL, which favours the larger Parzen parts.
func Search(ctx context.Context, x, fresh *mat.Dense, c Config) (*Model, []Candidate, error) {
	f, found, err := searched(ctx, x, c)
	if err != nil {
		return nil, nil, err
	}
	var best *Model
	var candidates []Candidate
	bestNLL := math.Inf(1)
	for _, s := range found {
		if s.collapsed {
			candidates = append(candidates, Candidate{Name: s.name, NLL: math.Inf(1)})
			continue
		}
		m, err := f.model(ctx, x, s.state)
		if err != nil {
			return nil, nil, err
		}
		nll := s.NLL
		if fresh != nil {
			nll = m.TestNLL(fresh, x)
		}
		candidates = append(candidates, Candidate{Name: s.name, NLL: nll, Parzen: m.Parzen(), Model: m})
		if nll < bestNLL {
			best, bestNLL = m, nll
		}
	}
	if best == nil {
		return nil, candidates, fmt.Errorf("lca: search: every candidate collapsed: raise Nu, which is lca.nu in a configuration, or set NearCopies: %w", prop1.ErrSingular)
	}
	return best, candidates, nil
}

// Candidates returns what Search compares, with the leave-one-out NLL of each. The models have neither neighbours nor scores: they are for a
// caller that judges them in its own way.
func Candidates(ctx context.Context, x *mat.Dense, c Config) ([]Candidate, error) {
	f, found, err := searched(ctx, x, c)
	if err != nil {
		return nil, err
	}
	candidates := make([]Candidate, len(found))
	for i, s := range found {
		if candidates[i] = (Candidate{Name: s.name, NLL: math.Inf(1)}); !s.collapsed {
			m := f.out(s.state, Info{NLL: s.NLL})
			candidates[i] = Candidate{Name: s.name, NLL: s.NLL, Parzen: m.Parzen(), Model: m}
		}
	}
	return candidates, nil
}

// searchedState is what one of the fits of a search has found.
type searchedState struct {
	name      string
	collapsed bool // a matrix was singular, and there is no state
	state
}

// searched runs the fits of Search.
func searched(ctx context.Context, x *mat.Dense, c Config) (f *fitting, found []searchedState, err error) {
	c.Kind = KindLCAGaussRed
	if f, err = newFitting(x, c); err != nil {
		return nil, nil, err
	}
	s, err := f.reduce(ctx)
	if err != nil && !errors.Is(err, prop1.ErrSingular) {
		return nil, nil, err
	}
	found = append(found, searchedState{"red", err != nil, s})
	q, err := f.flattest(ctx)
	if err != nil {
		return nil, nil, err
	}
	for k := 1; k <= prop1.Columns(q); k++ {
		s, err := f.em(ctx, f.startFrom(prop1.ColumnRange(q, 0, k)), f.MaxIter)
		if err != nil && !errors.Is(err, prop1.ErrSingular) {
			return nil, nil, err
		}
		found = append(found, searchedState{fmt.Sprintf("kurtosis %d", k), err != nil, s})
	}
	return f, found, nil
}

// startFrom is a state whose Parzen part are the orthonormal directions q of the whitened rows
// I_G(x−μ), with kernels a third as wide as the data, and whose Gaussian part is all the rest.
func (f *fitting) startFrom(q *mat.Dense) state {
	d, k := q.Dims()
	e := make([]float64, d)
	for j := range e {
		e[j] = 1
		if j < k {
			e[j] = kurtosisRatio
		}
	}
	return state{Parts: prop1.Assemble(f.ig, completed(q), e, k), CL: f.cg}
}

// flattest returns up to four orthonormal directions of the whitened rows z = I_G(x−μ) that locally
// minimise the fourth moment E[(wᵀz)⁴] over |w| = 1, the lowest first.
func (f *fitting) flattest(ctx context.Context) (*mat.Dense, error) {
	var z mat.Dense
	linalg.Mul(&z, f.rows, mat.DenseCopyOf(f.ig))
	d := len(f.Active)
	w := mat.NewDense(kurtosisStarts, d, nil)
	for s := range kurtosisStarts {
		for k := range d {
			w.Set(s, k, f.random.NormFloat64())
		}
		normalise(w.RawRowView(s))
	}
	level, err := descend(ctx, w, &z)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(level, func(a, b direction) int { return cmp.Compare(a.fourth, b.fourth) })
	var found []float64
	for _, v := range level {
		if len(found) < min(kurtosisMost, d)*d {
			normalise(v.w)
			found = appendDistinct(found, v.w)
		}
	}
	rows := mat.NewDense(len(found)/d, d, found)
	return mat.DenseCopyOf(rows.T()), nil
}

// appendDistinct appends w to the orthonormal rows found, made orthogonal to them, unless it is
// nearly one of them.
func appendDistinct(found, w []float64) []float64 {
	d := len(w)
	rest := append([]float64(nil), w...)
	for b := range len(found) / d {
		row := found[b*d : (b+1)*d]
		cosine := floats.Dot(row, w)
		if math.Abs(cosine) > kurtosisSame {
			return found
		}
		floats.AddScaled(rest, -floats.Dot(row, rest), row)
	}
	if floats.Norm(rest, 2) < 1-kurtosisSame { // within the span of several
		return found
	}
	normalise(rest)
	return append(found, rest...)
}

// completed returns an orthogonal matrix whose first columns are those of q.
func completed(q *mat.Dense) *mat.Dense {
	d, k := q.Dims()
	var qr mat.QR
	qr.Factorize(q)
	var full mat.Dense
	qr.QTo(&full)
	full.Slice(0, d, 0, k).(*mat.Dense).Copy(q) // QR may flip signs
	return &full
}

func normalise(w []float64) { floats.Scale(1/floats.Norm(w, 2), w) }

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
