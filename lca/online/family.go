package online

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// family is the M-step of a family of metrics on a stream. NewLearner chooses it, once.
type family interface {
	// first sets the basis of the first metric, whose directions are all Parzen, from M₁ in l.m1 and m2. It
	// overwrites both.
	first(l *model, m *metricState, m2 []float64) error
	// next sets the basis of m by the split for l.m1 and l.m2, and overwrites both. previous is the d_P before, from which it
	// moves only if a direction is clearly on the other side; Auto if there was none. With 0 no direction is Parzen.
	next(l *model, m *metricState, previous int) error
	// model sets the matrices of a model that is published, for C_L without ν.
	model(l *model, m *lca.Model, cl []float64) error
	// mahalanobis returns (x_i−μ)ᵀ (C_G + ν_g)⁻¹ (x_i−μ) for rows that the estimator has projected.
	mahalanobis(l *model, rows []float64) []float64
	// unconfined reports whether Σ may be any covariance. Then B_L can follow within its span between splits.
	unconfined() bool
}

func newFamily(c Config) (family, error) {
	f, err := prop1.FamilyOf(c.Metric.String(), c.Rank)
	if err != nil {
		return nil, err
	}
	if c.Metric == lca.MetricFull {
		return fullFamily{}, nil
	}
	return confinedFamily{prop1.MStep{Family: f, Plain: c.Kind == lca.KindLCA}}, nil
}

// fullFamily is the full metric: Proposition 1 by Cholesky factors, in the input's units.
type fullFamily struct{}

func (fullFamily) unconfined() bool { return true }

func (fullFamily) first(l *model, m *metricState, m2 []float64) error {
	if l.cfg.alone(0) { // as it may become; M₂ is M₁
		m.multiple(1, len(m.Active), l.work)
		return nil
	}
	return m.proposition1(m2, allParzen, l.work)
}

func (fullFamily) next(l *model, m *metricState, previous int) error {
	return m.proposition1(l.m2, l.splitAfter(previous), l.work)
}

func (fullFamily) mahalanobis(l *model, _ []float64) []float64 {
	return l.estimator.mahalanobis(l.work)
}

func (fullFamily) model(l *model, m *lca.Model, cl []float64) error {
	d, f := l.cfg.Dim, l.moments.columnScale(l.cfg.NuUnit)
	s := &metricState{ColumnScale: f}
	if err := s.factorGlobal(l, l.shrinkage(l.metric.parzen)); err != nil {
		return err
	}
	m.CG = f.SymmetricOut(l.m1, d)
	if l.metric.alone {
		m.CL = mat.NewSymDense(d, nil)
		m.CL.ScaleSym(localOfGlobal, m.CG)
		s.gaussianAlone(l.work)
	} else {
		m2 := l.addNu(nil, &s.ColumnScale, cl, l.cfg.Nu)
		m.CL = f.SymmetricOut(m2, d)
		if err := s.proposition1(m2, l.splitAfter(l.metric.parzen), l.work); err != nil {
			return err
		}
	}
	m.Ratio = s.ratio
	m.BL, m.BG = s.columnsOut(0, s.parzen, d), s.columnsOut(s.parzen, len(f.Active), d)
	return nil
}

// confinedFamily is any other metric: the M-step of prop1, in units of s, for a model; a step of the stream needs no more than a root of Σ.
type confinedFamily struct{ solver prop1.MStep }

func (confinedFamily) unconfined() bool { return false }

func (c confinedFamily) first(l *model, m *metricState, m2 []float64) error {
	return c.split(l, m, m2, len(m.Active))
}

func (c confinedFamily) next(l *model, m *metricState, _ int) error {
	return c.split(l, m, l.m2, prop1.Auto)
}

func (confinedFamily) mahalanobis(l *model, rows []float64) []float64 {
	squares, _ := l.mahalanobis(rows, nil)
	return squares
}

// split sets the basis of m, and overwrites M₁ and M₂. Any B with B Bᵀ = Σ⁻¹ does for the E-step, so that plain LCA needs no e.
func (c confinedFamily) split(l *model, m *metricState, m2 []float64, parzen int) error {
	var err error
	switch {
	case l.cfg.Metric == lca.MetricDiagonal:
		err = c.alongAxes(m, l.m1, m2, parzen)
	case c.solver.Plain:
		err = c.narrow(m, m2, l.cfg.Rank, l.work)
	default: // these covariances are all there are in coordinates where M₁ is I
		return m.proposition1(m2, func(e []float64) int { return max(1, prop1.LevelRatios(e, l.cfg.Rank, parzen)) }, l.work)
	}
	if err != nil {
		return fmt.Errorf("lca: C_L + ν (raise Nu, which is lca.nu in a configuration): %w", err)
	}
	return nil
}

// alongAxes is Proposition 1 for diagonal covariances: B has one number in each column and row.
func (c confinedFamily) alongAxes(m *metricState, m1, m2 []float64, parzen int) error {
	n := len(m.Active)
	e, order := make([]float64, n), make([]int, n)
	for k := range order {
		order[k] = k
		if e[k] = m2[k*n+k] / m1[k*n+k]; !(e[k] > 0) || math.IsInf(e[k], 0) {
			return fmt.Errorf("a variance of %.3g: %w", m2[k*n+k], prop1.ErrSingular)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(e[a], e[b]) })
	m.ratio = linalg.Resize(m.ratio, n)
	for j, k := range order {
		m.ratio[j] = e[k]
	}
	switch m.parzen = parzen; {
	case c.solver.Plain:
		m.parzen = n
	case parzen == prop1.Auto:
		m.parzen = max(1, prop1.CountBelow(m.ratio, 1)) // see parzenWithHysteresis
	}
	m.clearBasis()
	for j, k := range order {
		root := math.Sqrt(m1[k*n+k])
		if j < m.parzen {
			root = math.Sqrt(m2[k*n+k])
		}
		m.basis[k*n+j], m.inverse[j*n+k] = 1/root, root
		m.logDet -= math.Log(root)
	}
	return nil
}

// narrow sets B = Σ^(−½) for the Σ of few directions that is nearest M₂, in units of s.
func (c confinedFamily) narrow(m *metricState, m2 []float64, rank int, w *linalg.Workspace) error {
	n := len(m.Active)
	trace := 0.0
	for i := range n {
		for j := range n {
			m2[i*n+j] /= m.Scale[i] * m.Scale[j]
		}
		trace += m2[i*n+i]
	}
	var sigma prop1.Narrow
	if err := sigma.LowRank(func(dst, v []float64, cols int) {
		w.Product(dst, cols, linalg.Dense(m2, n), linalg.Dense(v, cols), n, cols, n, linalg.Set)
	}, trace, n, rank, w); err != nil {
		return err
	}
	m.clearBasis()
	m.parzen, m.ratio, m.logDet = n, linalg.Resize(m.ratio, n), -0.5*sigma.LogDet()
	for i := range n {
		m.ratio[i], m.basis[i*n+i], m.inverse[i*n+i] = 1, 1, 1
	}
	sigma.Times(m.basis, n, -0.5, w)
	sigma.Times(m.inverse, n, 0.5, w)
	for i, s := range m.Scale {
		m.logDet -= math.Log(s)
		for k := range n {
			m.basis[i*n+k] /= s
			m.inverse[k*n+i] *= s
		}
	}
	return nil
}

// clearBasis sets B and its inverse to 0, and log|det B|.
func (m *metricState) clearBasis() {
	n := len(m.Active)
	m.basis, m.inverse, m.logDet = linalg.Resize(m.basis, n*n), linalg.Resize(m.inverse, n*n), 0
	clear(m.basis)
	clear(m.inverse)
}

func (c confinedFamily) model(l *model, m *lca.Model, cl []float64) error {
	f, d := l.metric.ColumnScale, l.cfg.Dim
	global, pull := f.CovarianceIn(l.moments.full(), d), prop1.Pull{}
	if l.cfg.NuUnit == lca.UnitCovariance {
		pull.CG = global
	}
	m1 := pull.Add(global, l.cfg.NuGaussian)
	p, sigma, err := c.ridged(m1, pull.Add(f.CovarianceIn(cl, d), l.cfg.Nu))
	if err != nil {
		return err
	}
	m.Ratio, m.CG, m.CL = p.Ratio, f.CovarianceOut(m1, d), f.CovarianceOut(sigma, d)
	m.BG, m.BL = f.DirectionsOut(p.BG, d), f.DirectionsOut(p.BL, d)
	return nil
}

// ridged is the M-step with the ridges that a singular matrix gets in a split.
func (c confinedFamily) ridged(m1, m2 *mat.SymDense) (prop1.Parts, *mat.SymDense, error) {
	var root *mat.SymDense
	var err error
	for _, r := range prop1.Ridges {
		one, two := prop1.Ridge(m1, r), prop1.Ridge(m2, r)
		if root, err = prop1.InverseRoot(one); err != nil {
			continue
		}
		var p prop1.Parts
		var sigma *mat.SymDense
		if p, sigma, err = c.solver.Solve(one, root, two, prop1.Auto); err == nil {
			return p, sigma, nil
		}
	}
	return prop1.Parts{}, nil, err
}
