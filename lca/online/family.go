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
	// next sets the single Gaussian and the basis of m by the split for C_L and C_G. previous is the d_P before, from which it
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
	if err := m.factorGlobal(l, l.shrinkage(previous)); err != nil {
		return err
	}
	l.m2 = l.addNu(l.m2, &m.ColumnScale, l.cl, l.cfg.Nu)
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
	n := len(m.Active)
	if l.cfg.Metric != lca.MetricDiagonal {
		return c.split(l, m, m2, n)
	}
	l.m2 = linalg.Resize(l.m2, n)
	for k := range n {
		l.m2[k] = m2[k*(n+1)]
	}
	return c.alongAxes(l, m, l.m2, l.m2, n)
}

func (c confinedFamily) next(l *model, m *metricState, _ int) error {
	if err := c.single(l, m); err != nil {
		return err
	}
	if l.cfg.Metric == lca.MetricDiagonal {
		l.m1 = l.diagonalWithNu(l.m1, &m.ColumnScale, l.moments.cov, l.cfg.NuGaussian)
		l.m2 = l.diagonalWithNu(l.m2, &m.ColumnScale, l.cl, l.cfg.Nu)
		return c.alongAxes(l, m, l.m1, l.m2, prop1.Auto)
	}
	l.m2 = l.addNu(l.m2, &m.ColumnScale, l.cl, l.cfg.Nu)
	return c.split(l, m, l.m2, prop1.Auto)
}

// single sets the single Gaussian of m. Its factor is the one thing of a thin metric that takes n³ operations, and no more than the Gaussian's own figures,
// and a gate by C_G, follow from it. So it stays, with the centre of the coordinates, for as long as the full metric keeps a split.
func (c confinedFamily) single(l *model, m *metricState) error {
	was := l.metric
	if was == nil || was.form == wholeForm || !slices.Equal(was.Active, m.Active) {
		return m.factorGlobal(l, 0)
	}
	stays := !l.due(was)
	if !stays && was.of != l.moments.at() {
		return m.factorGlobal(l, 0)
	}
	m.gaussian, was.gaussian = was.gaussian, m.gaussian
	if m.of, m.ridged = was.of, was.ridged; stays {
		m.centre, was.centre = was.centre, m.centre
		m.frame, m.pending, m.minibatches = was.frame, was.pending, was.minibatches
	}
	return nil
}

func (confinedFamily) mahalanobis(l *model, rows []float64) []float64 {
	squares, _ := l.mahalanobis(rows, nil)
	return squares
}

// split sets the basis of m, and overwrites M₂. Any B with B Bᵀ = Σ⁻¹ does for the E-step, so that plain LCA needs no e.
func (c confinedFamily) split(l *model, m *metricState, m2 []float64, parzen int) error {
	if c.solver.Plain {
		return raiseNu(c.narrow(l, m, m2))
	}
	// these covariances are all there are in coordinates where M₁ is I
	return m.proposition1(m2, func(e []float64) int { return max(1, prop1.LevelRatios(e, l.cfg.Rank, parzen)) }, l.work)
}

func raiseNu(err error) error {
	if err != nil {
		return fmt.Errorf("lca: C_L + ν (raise Nu, which is lca.nu in a configuration): %w", err)
	}
	return nil
}

// alongAxes is Proposition 1 for diagonal covariances, of which these are the diagonals: B has one number in each column and row.
func (c confinedFamily) alongAxes(l *model, m *metricState, m1, m2 []float64, parzen int) error {
	n := len(m.Active)
	e := make([]float64, n)
	m.order = linalg.Resize(m.order, n)
	for k := range n {
		m.order[k] = k
		if e[k] = m2[k] / m1[k]; !(e[k] > 0) || math.IsInf(e[k], 0) {
			return raiseNu(fmt.Errorf("a variance of %.3g: %w", m2[k], prop1.ErrSingular))
		}
	}
	slices.SortStableFunc(m.order, func(a, b int) int { return cmp.Compare(e[a], e[b]) })
	m.ratio, m.root = linalg.Resize(m.ratio, n), linalg.Resize(m.root, n)
	for j, k := range m.order {
		m.ratio[j] = e[k]
	}
	switch m.parzen = parzen; {
	case c.solver.Plain:
		m.parzen = n
	case parzen == prop1.Auto:
		m.parzen = max(1, prop1.CountBelow(m.ratio, 1)) // see parzenWithHysteresis
	}
	m.form, m.logDet = axesForm, 0
	for j, k := range m.order {
		m.root[j] = math.Sqrt(m1[k])
		if j < m.parzen {
			m.root[j] = math.Sqrt(m2[k])
		}
		m.logDet -= math.Log(m.root[j])
	}
	if was := l.metric; was == nil || was.form != axesForm { // nothing reads the rest of C_L, and nothing brings it up to date
		for i := range l.cfg.Dim {
			row := l.cl[i*l.cfg.Dim:][:l.cfg.Dim]
			v := row[i]
			clear(row)
			row[i] = v
		}
	}
	return nil
}

// narrow sets B = Σ^(−½) for the Σ of few directions that is nearest M₂, in units of s.
func (c confinedFamily) narrow(l *model, m *metricState, m2 []float64) error {
	n, w, trace := len(m.Active), l.work, 0.0
	m.sigma.U = nil
	most := linalg.LeadingFew
	if was := l.metric; was != nil && was.form == narrowForm && slices.Equal(was.Active, m.Active) {
		m.sigma.U = was.sigma.U // where the search for the new directions begins
		if m.frame > 0 {        // between two splits
			most = linalg.LeadingFollow
		}
	}
	for i := range n {
		for j := range n {
			m2[i*n+j] /= m.Scale[i] * m.Scale[j]
		}
		trace += m2[i*n+i]
	}
	if err := m.sigma.LowRank(func(dst, v []float64, cols int) {
		w.Product(dst, cols, linalg.Dense(m2, n), linalg.Dense(v, cols), n, cols, n, linalg.Set)
	}, trace, n, l.cfg.Rank, most, w); err != nil {
		return err
	}
	m.form, m.parzen, m.ratio, m.logDet = narrowForm, n, linalg.Resize(m.ratio, n), -0.5*m.sigma.LogDet()
	for i, s := range m.Scale {
		m.ratio[i] = 1
		m.logDet -= math.Log(s)
	}
	return nil
}

// clearBasis sets B and its inverse to 0, and log|det B|.
func (m *metricState) clearBasis() {
	n := len(m.Active)
	m.form = wholeForm
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
