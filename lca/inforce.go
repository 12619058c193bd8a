package lca

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

const (
	// The split is found anew when C_L has taken in this share of new rows since the last time,
	// and at every minibatch where an eigendecomposition costs nothing.
	eigenShare  = 0.05
	eigenAlways = 32 // columns
	// A direction changes sides only beyond these e, so that it does not flicker between B_L and
	// B_G at each refresh; the proposition itself cuts at 1.
	becomesParzen   = 0.98
	becomesGaussian = 1.02
)

// inForce is the metric that the next minibatch is looked at with: B = (B_L, B_G) for the active
// columns, in the input's units.
type inForce struct {
	frame
	parzen  int        // d_P
	b, inv  *mat.Dense // B and B⁻¹, Parzen columns (rows of B⁻¹) first
	ratio   []float64  // e when the split was last found
	logDet  float64    // log|det B|
	pending float64    // share of new rows in C_L since the split was found

	// The single Gaussian N(μ, C_G + ν_g) that the model is compared with: its Cholesky factor.
	gaussian *mat.TriDense
	ridged   bool // a singular matrix got a ridge
}

// refresh is the M-step for the C_L and C_G of now. Between two eigendecompositions the spans of
// B_L and B_G stay, and the best B_L and B_G within them follow by Cholesky factors alone:
//
//	B_L ← B_L L⁻ᵀ with L Lᵀ = B_Lᵀ M₂ B_L,   B_G likewise with M₁
//
// which minimises eq. 7 over all matrices of these spans, so the bound falls as it does by
// Proposition 1, only not as far. share is the share of new rows in C_L.
func (l *Learner) refresh(share float64) (found bool, err error) {
	was := l.metric
	f := frameOf(l.globals, l.cfg.NuUnit)
	if len(f.active) == 0 {
		return false, fmt.Errorf("lca: all %d columns became constant", l.cfg.Dim)
	}
	next := &inForce{frame: f, pending: math.Inf(1)}
	if was != nil {
		enter(l.cl, l.cfg.Dim, was.active, f.active, l.globals.cov)
		if slices.Equal(was.active, f.active) {
			next.pending = was.pending + share
		}
	}
	m1 := f.sub(l.globals.cov, l.cfg.Dim, l.cfg.NuGaussian)
	m2 := f.sub(l.cl, l.cfg.Dim, l.cfg.Nu)
	if next.gaussian, next.ridged, err = factor(m1, len(f.active)); err != nil {
		return false, fmt.Errorf("lca: C_G + ν_g: %w", err)
	}
	switch {
	case l.cfg.Metric != MetricFull:
		found, err = true, next.within(l.cfg, m1, m2, Auto)
	case len(f.active) <= eigenAlways || next.pending >= eigenShare:
		found, err = true, next.proposition1(l.cfg.Kind, m2, l.previous(), l.filled())
	default:
		err = next.cholesky(was, m1, m2)
		if errors.Is(err, errSingular) { // rounding only: the split is found in better coordinates
			found, err = true, next.proposition1(l.cfg.Kind, m2, l.previous(), l.filled())
		}
	}
	if err != nil {
		return false, err
	}
	if found {
		next.pending = 0
	}
	l.metric = next
	return found, nil
}

// previous returns d_P in force, or Auto before the first split.
func (l *Learner) previous() int {
	if l.metric == nil || !l.split {
		return Auto
	}
	return l.metric.parzen
}

// filled is the share of the pool that holds rows.
func (l *Learner) filled() float64 { return float64(l.pool.len()) / float64(l.cfg.Neighbours) }

// proposition1 finds the split with M₁ = L Lᵀ by its Cholesky factor, which has the same solution
// as the symmetric root and needs one eigendecomposition less:
//
//	L⁻¹ M₂ L⁻ᵀ = U diag(e) Uᵀ,  (B_L, B_G) = L⁻ᵀ U diag(e_P^−½, 1),  B⁻¹ = diag(e_P^½, 1) Uᵀ Lᵀ
func (m *inForce) proposition1(kind Kind, m2 []float64, previous int, filled float64) error {
	n := len(m.active)
	e, u, ridged, err := ratiosBy(m.gaussian, m2, n)
	if err != nil {
		return err
	}
	m.ridged = m.ridged || ridged
	m.parzen, m.ratio = n, e
	if kind != KindLCA {
		m.parzen = parzenWithHysteresis(e, previous, filled)
	}
	m.b, m.inv, m.logDet = mat.NewDense(n, n, nil), mat.NewDense(n, n, nil), -logDiagonal(m.gaussian)
	solveTransposed(m.b, m.gaussian, u)
	multiplyTransposed(m.inv, u, m.gaussian)
	for k, v := range e[:m.parzen] {
		root := math.Sqrt(v)
		for i := range n {
			m.b.Set(i, k, m.b.At(i, k)/root)
			m.inv.Set(k, i, m.inv.At(k, i)*root)
		}
		m.logDet -= 0.5 * math.Log(v)
	}
	return nil
}

// parzenWithHysteresis returns d_P for ascending e: the cut at 1, or near the previous d_P the
// number that moves only when a direction is clearly on the other side. At least one direction
// stays Parzen: with none all rows are equally near, and C_L = 2 C_G would keep it so for ever.
//
// From a pool of which a share is filled as yet, C_L is too wide by share^(−2/(d_P+4)), a pure
// factor as in smallPool, and the cut is as much higher. A direction that is given up stays
// Gaussian, because then λ no longer looks at it: 200 rows must not decide what 3000 would not.
func parzenWithHysteresis(e []float64, previous int, filled float64) int {
	parzen := previous
	if previous == Auto {
		parzen = len(e)
	}
	wide := math.Pow(filled, -2/float64(parzen+4))
	if previous == Auto {
		return max(1, countBelow(e, wide))
	}
	return max(1, countBelow(e, becomesParzen*wide), min(previous, countBelow(e, becomesGaussian*wide)))
}

// cholesky refreshes B within the spans of was.
func (m *inForce) cholesky(was *inForce, m1, m2 []float64) error {
	n := len(m.active)
	m.parzen, m.ratio, m.logDet = was.parzen, was.ratio, was.logDet
	m.b, m.inv = mat.DenseCopyOf(was.b), mat.DenseCopyOf(was.inv)
	for _, part := range []struct {
		from, to int
		m        []float64
	}{{0, was.parzen, m2}, {was.parzen, n, m1}} {
		if part.from == part.to {
			continue
		}
		b := was.b.Slice(0, n, part.from, part.to)
		var mb, inner mat.Dense
		linalg.Mul(&mb, mat.NewDense(n, n, part.m), b)
		linalg.Mul(&inner, b.T(), &mb)
		low, ridged, err := factor(symmetrised(&inner), part.to-part.from)
		if err != nil {
			return err
		}
		if ridged {
			return errSingular
		}
		var columns, rows mat.Dense
		columns.CloneFrom(b)
		solveRight(&columns, low)
		linalg.Mul(&rows, square(low).T(), was.inv.Slice(part.from, part.to, 0, n))
		m.b.Slice(0, n, part.from, part.to).(*mat.Dense).Copy(&columns)
		m.inv.Slice(part.from, part.to, 0, n).(*mat.Dense).Copy(&rows)
		m.logDet -= logDiagonal(low)
	}
	return nil
}

// within is the M-step of the other families of metrics, in units of s.
func (m *inForce) within(c Config, m1, m2 []float64, parzen int) error {
	n := len(m.active)
	for i := range n {
		for j := range n {
			m1[i*n+j] /= m.scale[i] * m.scale[j]
			m2[i*n+j] /= m.scale[i] * m.scale[j]
		}
	}
	one, two := mat.NewSymDense(n, m1), mat.NewSymDense(n, m2)
	root, err := inverseRoot(one)
	if err != nil {
		return fmt.Errorf("lca: C_G + ν_g (raise NuGaussian): %w", err)
	}
	p, _, err := mStep(c.Kind, c.Metric, c.Rank, one, root, two, parzen)
	if err == nil && columns(p.BL) == 0 { // see parzenWithHysteresis
		p, _, err = mStep(c.Kind, c.Metric, c.Rank, one, root, two, 1)
	}
	if err != nil {
		return fmt.Errorf("lca: C_L + ν (raise Nu): %w", err)
	}
	m.parzen, m.ratio, m.b, m.inv = columns(p.BL), p.Ratio, p.joined(), new(mat.Dense)
	if err := m.inv.Inverse(m.b); err != nil {
		return fmt.Errorf("lca: inverse of (B_L, B_G): %w", errSingular)
	}
	m.logDet, _ = mat.LogDet(m.b)
	for i, s := range m.scale {
		m.logDet -= math.Log(s)
		for k := range n {
			m.b.Set(i, k, m.b.At(i, k)/s)
			m.inv.Set(k, i, m.inv.At(k, i)*s)
		}
	}
	return nil
}
