package online

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Model returns what has been learnt so far: the split of Proposition 1 for the current C_L and C_G,
// by eigendecomposition as Fit does it, and the pool as its neighbours. It leaves the learner
// unchanged: when and how often a model is published changes no bit of what is learnt.
//
// Before the first update it returns ErrWarmup.
func (l *Learner) Model() (*lca.Model, error) {
	if l.metric == nil || l.counts.Minibatches == 0 {
		return nil, ErrWarmup
	}
	cl := make([]float64, len(l.cl))
	l.metric.current(cl, l.cl, l.cfg.Dim, &l.work)
	if l.cfg.TargetRows > 0 {
		factor := prop1.WidthFactor(l.pool.len(), l.cfg.TargetRows, l.metric.parzen)
		for k := range cl {
			cl[k] *= factor
		}
	}
	m := &lca.Model{
		Dim: l.cfg.Dim, Mean: append([]float64(nil), l.moments.mean...),
		Neighbours: make([]float32, len(l.pool.rows)),
		Kind:       l.cfg.Kind, Metric: l.cfg.Metric,
		Info: l.info(),
	}
	for k, v := range l.pool.rows {
		m.Neighbours[k] = float32(v)
	}
	var err error
	if l.cfg.Metric == lca.MetricFull {
		err = l.solve(m, cl)
	} else {
		err = l.solveWithin(m, cl)
	}
	if err != nil {
		return nil, err
	}
	if l.cfg.Coordinates != lca.CoordinatesAligned { // they need no history
		return m.View(l.cfg.Coordinates, l.cfg.Components)
	}
	m.Coordinates, m.Components = l.cfg.Coordinates, l.cfg.Components
	m.W, err = l.aligned.whitening(m.BL, m.BG, m.Components, linalg.Elements(m.CG))
	return m, err
}

// solve is the M-step of Model, as findSplit does it.
func (l *Learner) solve(m *lca.Model, cl []float64) error {
	d, f := l.cfg.Dim, l.moments.columnScale(l.cfg.NuUnit)
	s := &metricState{ColumnScale: f}
	if err := s.factorGlobal(l); err != nil {
		return err
	}
	m2 := s.Sub(nil, cl, d, l.cfg.Nu)
	m.CG, m.CL = f.SymmetricOut(l.m1, d), f.SymmetricOut(m2, d)
	if err := s.proposition1(l.cfg.Kind, m2, l.metric.parzen, l.poolShare(), &l.work); err != nil {
		return err
	}
	m.Ratio = s.ratio
	m.BL, m.BG = s.columnsOut(0, s.parzen, d), s.columnsOut(s.parzen, len(f.Active), d)
	return nil
}

// columnsOut spreads columns of the split's B over all dim columns of the input.
func (m *metricState) columnsOut(from, to, dim int) *mat.Dense {
	if from == to {
		return &mat.Dense{}
	}
	out, n := mat.NewDense(dim, to-from, nil), len(m.Active)
	for i, k := range m.Active {
		copy(out.RawRowView(k), m.basis[i*n+from:i*n+to])
	}
	return out
}

// solveWithin is solve for the other families of metrics.
func (l *Learner) solveWithin(m *lca.Model, cl []float64) error {
	f, d := l.metric.ColumnScale, l.cfg.Dim
	m1 := prop1.Ridge(f.CovarianceIn(l.moments.full(), d), l.cfg.NuGaussian)
	p, sigma, err := l.families(m1, prop1.Ridge(f.CovarianceIn(cl, d), l.cfg.Nu))
	if err != nil {
		return err
	}
	m.Ratio, m.CG, m.CL = p.Ratio, f.CovarianceOut(m1, d), f.CovarianceOut(sigma, d)
	m.BG, m.BL = f.DirectionsOut(p.BG, d), f.DirectionsOut(p.BL, d)
	return nil
}

// families is the M-step in a family of metrics. A singular matrix gets the same ridges as in a split.
func (l *Learner) families(m1, m2 *mat.SymDense) (prop1.Parts, *mat.SymDense, error) {
	var root *mat.SymDense
	var err error
	for _, r := range prop1.Ridges {
		one, two := prop1.Ridge(m1, r), prop1.Ridge(m2, r)
		if root, err = prop1.InverseRoot(one); err != nil {
			continue
		}
		var p prop1.Parts
		var sigma *mat.SymDense
		if p, sigma, err = l.solver.Solve(one, root, two, lca.Auto); err == nil {
			return p, sigma, nil
		}
	}
	return prop1.Parts{}, nil, err
}

// info returns how the model came to be.
func (l *Learner) info() lca.Info {
	i := lca.Info{
		Rows: l.counts.Rows, Learnt: l.counts.Learnt, NLL: math.NaN(), GaussianNLL: math.NaN(),
		Gamma: l.cfg.Gamma, Nu: l.cfg.Nu, NuGaussian: l.cfg.NuGaussian, NuUnit: l.cfg.NuUnit,
		Minibatch: l.cfg.Minibatch, PassRows: l.cfg.memory(l.counts.Since, l.cfg.Dim),
		Alarms: l.counts.Alarms, Gated: l.counts.Gated, Copies: l.counts.Copies,
		Constant: l.metric.Constant(l.cfg.Dim), Drift: l.aligned.radians,
	}
	if l.running.Weight > 0 {
		i.NLL, i.GaussianNLL, i.Effective = l.running.NLL, l.running.GaussianNLL, l.running.Effective
	}
	return i
}

// Info returns how far the learner has come; it is what the next Model would carry.
func (l *Learner) Info() lca.Info {
	if l.metric == nil {
		return lca.Info{Rows: l.counts.Rows, NLL: math.NaN(), GaussianNLL: math.NaN(), Effective: math.NaN()}
	}
	return l.info()
}
