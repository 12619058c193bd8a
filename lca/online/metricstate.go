package online

import (
	"fmt"
	"math"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

const (
	// The split is computed again when C_L has taken in this share of new rows since the last one, or
	// after this number of minibatches. Both go by count, so that asking for a model does not change what is learnt.
	// While n grows the directions are still being found; after that only drift turns them.
	youngShare       = 0.25
	splitShare       = 0.5
	splitMinibatches = 16
	// A direction changes sides only beyond these e, so that it does not flicker between B_L and
	// B_G at each split; the proposition itself cuts at 1.
	becomesParzen   = 0.98
	becomesGaussian = 1.02
)

// metricState is the metric of the next E-step, over the active columns, in the input's units. The split of
// Proposition 1 gives a basis B = (B_L, B_G). Until the next split its spans stay, the rows are kept in its
// coordinates, and B_L changes within its own span. Matrices are row-major, of order n = len(Active).
type metricState struct {
	prop1.ColumnScale
	parzen int // d_P
	thinBasis
	basis, inverse []float64 // B and B⁻¹ as the split found them, Parzen columns (rows of B⁻¹) first; not of a thin B
	ratio          []float64 // e
	logDet         float64   // log|det B|
	centre         []float64 // the pool's mean at the split, over all columns: what coordinates are centred on

	// The single Gaussian N(μ, C_G + ν_g) that the model is compared with: its Cholesky factor.
	gaussian []float64
	ridged   bool // a singular matrix got a ridge
	alone    bool // it is all there is (wide.go), and no row changes C_L; not part of the state

	spanUpdate
	number uint64 // of the split, to recognise what is kept in its coordinates; not part of the state
	frame  uint64 // of the split that found the centre and the factor; not part of the state
	of     momentsAt
}

// factorGlobal factors the current C_G + ν_g for the single Gaussian, shrunk by a (wide.go), and leaves M₁ in l.m1.
func (m *metricState) factorGlobal(l *model, a float64) (err error) {
	n := len(m.Active)
	l.m1 = l.addNu(l.m1, &m.ColumnScale, l.moments.full(), l.cfg.NuGaussian)
	shrink(l.m1, n, a)
	m.gaussian, m.of = linalg.Resize(m.gaussian, n*n), l.moments.at()
	if m.ridged, err = prop1.Factor(m.gaussian, l.m1, n, l.work); err != nil {
		return fmt.Errorf("lca: C_G + ν_g: %w", err)
	}
	return nil
}

// proposition1 finds the split for M₂, which it overwrites, and M₁ = L Lᵀ by its Cholesky factor, which has the same solution
// as the symmetric root and needs one eigendecomposition less:
//
//	L⁻¹ M₂ L⁻ᵀ = U diag(e) Uᵀ,  (B_L, B_G) = L⁻ᵀ U diag(e_P^−½, 1),  B⁻¹ = diag(e_P^½, 1) Uᵀ Lᵀ
//
// split returns d_P for ascending e.
func (m *metricState) proposition1(m2 []float64, split func(e []float64) int, w *linalg.Workspace) error {
	n := len(m.Active)
	m.form = wholeForm
	m.ratio, m.basis, m.inverse = linalg.Resize(m.ratio, n), linalg.Resize(m.basis, n*n), linalg.Resize(m.inverse, n*n)
	ridged, err := prop1.RatiosByFactor(m.ratio, m.basis, m.gaussian, m2, n, w)
	if err != nil {
		return err
	}
	m.ridged = m.ridged || ridged
	m.parzen = split(m.ratio)
	low := linalg.Dense(m.gaussian, n)
	w.Product(m.inverse, n, linalg.Dense(m.basis, n).T(), low.T(), n, n, n, linalg.Set)
	w.SolveLeftTransposed(low, m.basis, n, n, n)
	m.logDet = -prop1.LogDiagonal(m.gaussian, n)
	for k, v := range m.ratio[:m.parzen] {
		root := math.Sqrt(v)
		for i := range n {
			m.basis[i*n+k] /= root
			m.inverse[k*n+i] *= root
		}
		m.logDet -= 0.5 * math.Log(v)
	}
	return nil
}

// parzenWithHysteresis returns d_P for ascending e: the cut at 1, or near the previous d_P the
// number that moves only when a direction is clearly on the other side. At least one direction
// stays Parzen: with none all rows are equally near, and C_L = 2 C_G would never change that. So only the data's choice
// (choice.go) gives up the last one, and only it takes one back.
//
// While only a share of the pool is filled, C_L is too wide by share^(−2/(d_P+4)), a pure factor as in
// prop1.WidthFactor, and the cut is raised by the same factor. A direction that becomes Gaussian stays so, because
// λ no longer depends on it: 200 rows must not decide what 3000 would not.
func parzenWithHysteresis(e []float64, previous int, filled float64) int {
	if previous == 0 {
		return 0
	}
	parzen := previous
	if previous == lca.Auto {
		parzen = len(e)
	}
	wide := math.Pow(filled, -2/float64(parzen+4))
	if previous == lca.Auto {
		return max(1, prop1.CountBelow(e, wide))
	}
	return max(1, prop1.CountBelow(e, becomesParzen*wide), min(previous, prop1.CountBelow(e, becomesGaussian*wide)))
}

// startSpan starts the updates that follow a split.
func (m *metricState) startSpan(l *model) {
	l.splits++
	m.number, m.keep, m.narrowed = l.splits, 1, false
	m.fresh = linalg.Resize(m.fresh, m.freshLen())
	clear(m.fresh)
	if m.frame > 0 { // that of the metric before
		return
	}
	m.frame, m.pending, m.minibatches = l.splits, 0, 0
	if l.family.unconfined() {
		m.projectNu(l)
	}
	m.centre = linalg.Resize(m.centre, l.cfg.Dim)
	l.offset = linalg.Resize(l.offset, l.cfg.Dim)
	prop1.Mean(m.centre, l.offset, l.pool.Rows, l.cfg.Dim)
}

// resume sets what follows from a state that was read.
func (m *metricState) resume(l *model) bool {
	l.splits++
	m.number, m.frame, m.alone = l.splits, l.splits, l.cfg.alone(m.parzen)
	if m.form != wholeForm {
		return true
	}
	m.projectNu(l)
	return m.minibatches == 0 || m.updateSpan(l.work)
}

// projectNu sets B_Lᵀ N B_L.
func (m *metricState) projectNu(l *model) {
	if l.cfg.NuUnit != lca.UnitCovariance {
		m.projectDiagonal(l.cfg.Nu, m.Scale, l.work)
		return
	}
	// Of M₁ = (1+ν_g) C_G + ridge it is known that B_Lᵀ M₁ B_L = diag(1/e).
	n, p := len(m.Active), m.parzen
	share := l.cfg.Nu / (1 + l.cfg.NuGaussian)
	l.offset = linalg.Resize(l.offset, n)
	for i := range n {
		l.offset[i] = math.Sqrt(kernel.NormSquared(m.gaussian[i*n:][:i+1]) / (1 + l.cfg.NuGaussian))
	}
	m.projectDiagonal(max(0, 1-share)*prop1.RoundingRidge, l.offset, l.work)
	for k, e := range m.ratio[:p] {
		m.nu[k*p+k] += share / e
	}
}

// projectDiagonal sets B_Lᵀ ν s² B_L.
func (m *metricState) projectDiagonal(nu float64, scale []float64, w *linalg.Workspace) {
	n, p := len(m.Active), m.parzen
	m.nu, m.scratch[0] = linalg.Resize(m.nu, p*p), linalg.Resize(m.scratch[0], n*p)
	root := math.Sqrt(nu)
	for i, s := range scale {
		for k, v := range m.basis[i*n:][:p] {
			m.scratch[0][i*p+k] = root * s * v
		}
	}
	a := linalg.Dense(m.scratch[0], p)
	w.Product(m.nu, p, a.T(), a, p, p, n, linalg.Set)
}

// updateSpan is the M-step between splits. It returns false where rounding has made the matrix singular.
func (m *metricState) updateSpan(w *linalg.Workspace) bool {
	n, p := len(m.Active), m.parzen
	m.low = linalg.Resize(m.low, p*p)
	for i := range p {
		for j := range i + 1 {
			m.low[i*p+j] = m.fresh[j*n+i] + float64((1-m.keep)*m.nu[i*p+j])
		}
		m.low[i*p+i] += m.keep
	}
	m.narrowed = w.CholeskyLower(m.low, p) == nil && prop1.Regular(m.low, p)
	return m.narrowed
}

// logVolume is log|det B| of the current metric.
func (m *metricState) logVolume() float64 {
	if !m.narrowed {
		return m.logDet
	}
	return m.logDet - prop1.LogDiagonal(m.low, m.parzen)
}

// local sets dst to the current B_Lᵀ, d_P×n.
func (m *metricState) local(dst []float64, w *linalg.Workspace) []float64 {
	n, p := len(m.Active), m.parzen
	dst = linalg.Resize(dst, p*n)
	for i := range n {
		for k, v := range m.basis[i*n:][:p] {
			dst[k*n+i] = v
		}
	}
	if m.narrowed {
		w.SolveLeft(linalg.Dense(m.low, p), dst, n, p, n)
	}
	return dst
}

// average is C_L ← γ^(B/n) C_L + (1−γ^(B/n)) Ĉ_L   (eq. 8, section 5.1), from the sums of an E-step in the
// coordinates of the current metric, which it brings back into those of the split.
func (m *metricState) average(sum *kernel.Moments, discount float64, w *linalg.Workspace) {
	switch {
	case m.alone:
		return
	case m.form == axesForm:
		m.averageAxes(sum, discount)
		return
	}
	n := len(m.Active)
	c := sum.Upper
	if m.narrowed {
		m.toSplitBasis(c, w)
	}
	m.keep *= discount
	share := (1 - discount) / float64(sum.Rows)
	for i := range n {
		fresh := m.fresh[i*n+i : (i+1)*n]
		for k, v := range c[i*n+i : (i+1)*n] {
			fresh[k] = float64(discount*fresh[k]) + float64(share*v)
		}
	}
}

// toSplitBasis is C ← T C Tᵀ with T = diag(L, I), on and above the diagonal.
func (m *metricState) toSplitBasis(c []float64, w *linalg.Workspace) {
	n, p := len(m.Active), m.parzen
	m.scratch[0], m.scratch[1] = linalg.Resize(m.scratch[0], p*n), linalg.Resize(m.scratch[1], p*p)
	left, corner, low := m.scratch[0], m.scratch[1], linalg.Dense(m.low, p)
	kernel.MirrorUpper(c, n, p)
	w.Product(left, n, low, linalg.Dense(c, n), p, n, p, linalg.Set)
	w.Product(corner, p, linalg.Dense(left, n), low.T(), p, p, p, linalg.Set)
	for i := range p {
		for j := range i + 1 {
			c[j*n+i] = 0.5 * (corner[i*p+j] + corner[j*p+i])
		}
		copy(c[i*n+p:][:n-p], left[i*n+p:])
	}
}

// freshFull returns fresh, both triangles.
func (m *metricState) freshFull() []float64 {
	n := len(m.Active)
	kernel.MirrorUpper(m.fresh, n, n)
	return m.fresh
}

// fold brings C_L, dim×dim and as it was at the split, up to date. What was between is then over: a split
// must follow.
func (m *metricState) fold(cl []float64, dim int, w *linalg.Workspace) {
	m.current(cl, cl, dim, w)
	m.keep = 1
	clear(m.fresh)
}

// current sets dst to the C_L of now, where cl is that of the split.
func (m *metricState) current(dst, cl []float64, dim int, w *linalg.Workspace) {
	if len(dst) > 0 && &dst[0] != &cl[0] {
		copy(dst, cl[:dim*dim])
	}
	switch m.form {
	case wholeForm:
		if m.alone {
			return
		}
	case axesForm:
		m.axesOut(dst, cl, dim)
		return
	}
	n := len(m.Active)
	m.scratch[0] = linalg.Resize(m.scratch[0], n*n)
	c := m.scratch[0]
	if m.form == narrowForm {
		m.outOfNarrow(c, w)
	} else {
		w.Congruence(c, linalg.Dense(m.inverse, n).T(), m.freshFull(), n)
	}
	for i, k := range m.Active {
		for j, o := range m.Active {
			dst[k*dim+o] = float64(m.keep*cl[k*dim+o]) + c[i*n+j]
		}
	}
}

// spanUpdate describes the change of a metric between two splits. An eigendecomposition costs as much as many
// minibatches, and in a few of them the spans of B_L and B_G, C_G and the scales hardly change. What does
// change is the width of the kernel, and that follows at each minibatch by a Cholesky factor:
//
//	B_L ← B_L L⁻ᵀ with L Lᵀ = B_Lᵀ M₂ B_L
//
// is the best B_L of its span (eq. 7), so the bound falls as it does by Proposition 1, only not as far.
//
// In the coordinates of the basis B that the split found, B_Lᵀ M₂ B_L was the identity, and Ĉ_L is formed
// there. So C_L need not be carried back and forth:
//
//	C_L = keep·(C_L at the split) + B⁻ᵀ fresh B⁻¹
//	B_Lᵀ M₂ B_L = keep·I + fresh_PP + (1−keep)·B_Lᵀ N B_L,  N = ν s² or ν C_G
//
// and of the pool's rows only the first d_P coordinates change (estep.go).
type spanUpdate struct {
	pending     float64   // share of new rows in C_L since the split
	minibatches int       // learnt since the split
	keep        float64   // what is left of the weight that C_L had at the split
	fresh       []float64 // Σ of Ĉ_L since then, discounted, in the basis: n×n, on and above the diagonal

	// These follow from the others, and are no state.
	nu       []float64 // B_Lᵀ N B_L, d_P×d_P
	low      []float64 // L, d_P×d_P
	narrowed bool      // L is not the identity

	scratch [2][]float64
}
