package online

import (
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Rows are wide if several for each column are more than can be waited for, as with embeddings. Such a stream warms up on wideSpare beyond one for
// each column. A single Gaussian of these has C_G shrunk to its diagonal, in units of s,
//
//	(1−a) C_G + a diag(C_G),  a = (d² + |C_G|²) / (n |C_G − I|²) ≤ 1
//
// as Ledoit and Wolf (2004) have it for Gaussian rows; n are the independent rows behind it. a follows from the moments, and falls as they grow.

// wideSpare is the rows of the warm-up beyond one for each column.
const wideSpare = 500

// localOfGlobal is C_L of C_G where all neighbours of a row count the same: half is the row's, half that of its neighbours.
const localOfGlobal = 2

// wide reports whether rows are wide, and a single Gaussian may be all that is learnt of them.
func (c Config) wide() bool {
	return c.WarmupRows == lca.Auto && c.freedom().gaussian && c.usualWarmup() > c.Dim+wideSpare
}

// fewOfWide reports whether rows are wide, and the pool holds few for each column.
func (l *model) fewOfWide() bool {
	return l.cfg.wide() && l.pool.Len() < momentsRowsPerColumn*len(l.metric.Active)
}

// alone reports whether a metric stays a single Gaussian: none of its directions is Parzen, and the pool is too small for EM.
func (c Config) alone(parzen int) bool {
	return parzen == 0 && c.wide() && c.Neighbours < momentsRowsPerColumn*c.Dim
}

// gaussianAlone sets B where no direction is Parzen. All neighbours count the same, so that C_L is 2 C_G whatever the rows are: nothing needs to be
// learnt of it.
func (m *metricState) gaussianAlone(w *linalg.Workspace) { m.multiple(localOfGlobal, 0, w) }

// multiple sets B = L⁻ᵀ for M₁ = L Lᵀ. All e are that one, and nothing needs to be decomposed; either all directions are Parzen and e is 1, or none is.
func (m *metricState) multiple(e float64, parzen int, w *linalg.Workspace) {
	n := len(m.Active)
	m.parzen = parzen
	m.clearBasis()
	m.ratio = linalg.Resize(m.ratio, n)
	for i := range n {
		m.ratio[i], m.basis[i*n+i] = e, 1
		for k, v := range m.gaussian[i*n:][:i+1] {
			m.inverse[k*n+i] = v
		}
	}
	w.SolveLeftTransposed(linalg.Dense(m.gaussian, n), m.basis, n, n, n)
	m.logDet = -prop1.LogDiagonal(m.gaussian, n)
}

// shrinkage returns a for the Gaussian of so many Parzen directions; 0: C_G stays.
func (l *model) shrinkage(parzen int) float64 {
	if parzen != 0 || !l.cfg.wide() {
		return 0
	}
	return l.towardsDiagonal(l.moments.independent(l.gap))
}

// towardsDiagonal returns a for a C_G of that number of independent rows.
func (l *model) towardsDiagonal(independent float64) float64 {
	f, d := l.moments.columnScale(lca.UnitRelative), l.cfg.Dim
	cov, squares := l.moments.full(), 0.
	for i, k := range f.Active {
		for j, o := range f.Active[:i] {
			v := cov[k*d+o] / (f.Scale[i] * f.Scale[j])
			squares += float64(v * v)
		}
	}
	n := float64(len(f.Active))
	return min(1, (n*n+n+2*squares)/(independent*max(2*squares, 1e-12)))
}

// shrink sets a matrix A of order n to (1−a) A + a diag(A).
func shrink(m []float64, n int, a float64) {
	if a == 0 {
		return
	}
	for i := range n {
		for j, v := range m[i*n:][:n] {
			if i != j {
				m[i*n+j] = (1 - a) * v
			}
		}
	}
}
