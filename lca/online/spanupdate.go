package online

import (
	"math"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// spanUpdate is how a metric changes between two splits. An eigendecomposition costs as much as many
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

// startSpan starts the updates that follow a split.
func (m *metricState) startSpan(l *Learner) {
	n := len(m.Active)
	l.splits++
	m.number = l.splits
	m.pending, m.minibatches, m.keep, m.narrowed = 0, 0, 1, false
	m.fresh = linalg.Resize(m.fresh, n*n)
	clear(m.fresh)
	m.projectNu(l)
	m.centre = linalg.Resize(m.centre, l.cfg.Dim)
	l.offset = linalg.Resize(l.offset, l.cfg.Dim)
	prop1.Mean(m.centre, l.offset, l.pool.rows, l.cfg.Dim)
}

// resume sets what follows from a state that was read.
func (m *metricState) resume(l *Learner) bool {
	l.splits++
	m.number = l.splits
	m.projectNu(l)
	return m.minibatches == 0 || m.updateSpan(l.work)
}

// projectNu sets B_Lᵀ N B_L.
func (m *metricState) projectNu(l *Learner) {
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
	n := len(m.Active)
	m.scratch[0] = linalg.Resize(m.scratch[0], n*n)
	c := m.scratch[0]
	w.Congruence(c, linalg.Dense(m.inverse, n).T(), m.freshFull(), n)
	copy(dst, cl[:dim*dim])
	for i, k := range m.Active {
		for j, o := range m.Active {
			dst[k*dim+o] = float64(m.keep*cl[k*dim+o]) + c[i*n+j]
		}
	}
}
