package lca

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Model returns what has been learnt so far: the split of Proposition 1 for the C_L and C_G of now,
// by eigendecomposition as Fit does it, and the pool as its neighbours. It leaves the learner
// untouched: whoever publishes, and when, changes no bit of what is learnt.
//
// Before the first update it returns ErrWarmup.
func (l *Learner) Model() (*Model, error) {
	if l.metric == nil || l.counts.Minibatches == 0 {
		return nil, ErrWarmup
	}
	cl := make([]float64, len(l.cl))
	l.metric.current(cl, l.cl, l.cfg.Dim, &l.work)
	if l.cfg.TargetRows > 0 {
		factor := narrower(l.pool.len(), l.cfg.TargetRows, l.metric.parzen)
		for k := range cl {
			cl[k] *= factor
		}
	}
	m := &Model{
		Dim: l.cfg.Dim, Mean: append([]float64(nil), l.globals.mean...),
		Neighbours: make([]float32, len(l.pool.rows)),
		Kind:       l.cfg.Kind, Metric: l.cfg.Metric, Coordinates: l.cfg.Coordinates, Components: l.cfg.Components,
		Info: l.info(),
	}
	for k, v := range l.pool.rows {
		m.Neighbours[k] = float32(v)
	}
	var err error
	if l.cfg.Metric == MetricFull {
		err = l.solve(m, cl)
	} else {
		err = l.solveWithin(m, cl)
	}
	if err != nil {
		return nil, err
	}
	m.W, err = l.coordinates(m)
	return m, err
}

// solve is the M-step of Model, as findSplit does it.
func (l *Learner) solve(m *Model, cl []float64) error {
	d, f := l.cfg.Dim, frameOf(l.globals, l.cfg.NuUnit)
	s := &inForce{frame: f}
	if err := s.compare(l); err != nil {
		return err
	}
	m2 := s.sub(nil, cl, d, l.cfg.Nu)
	m.CG, m.CL = f.symmetricOut(l.m1, d), f.symmetricOut(m2, d)
	if err := s.proposition1(l.cfg.Kind, m2, l.metric.parzen, l.filled(), &l.work); err != nil {
		return err
	}
	m.Ratio = s.ratio
	m.BL, m.BG = s.columnsOut(0, s.parzen, d), s.columnsOut(s.parzen, len(f.active), d)
	return nil
}

// symmetricOut spreads a symmetric matrix over the active columns over all dim.
func (f frame) symmetricOut(a []float64, dim int) *mat.SymDense {
	n := len(f.active)
	out := mat.NewSymDense(dim, nil)
	for i, k := range f.active {
		for j := i; j < n; j++ {
			out.SetSym(k, f.active[j], a[i*n+j])
		}
	}
	return out
}

// columnsOut spreads columns of the split's B over all dim columns of the input.
func (m *inForce) columnsOut(from, to, dim int) *mat.Dense {
	if from == to {
		return &mat.Dense{}
	}
	out, n := mat.NewDense(dim, to-from, nil), len(m.active)
	for i, k := range m.active {
		copy(out.RawRowView(k), m.b[i*n+from:i*n+to])
	}
	return out
}

// solveWithin is solve for the other families of metrics.
func (l *Learner) solveWithin(m *Model, cl []float64) error {
	w := l.working()
	m1 := ridge(w.covarianceIn(l.globals.whole(), l.cfg.Dim), l.cfg.NuGaussian)
	p, sigma, err := l.families(m1, ridge(w.covarianceIn(cl, l.cfg.Dim), l.cfg.Nu))
	if err != nil {
		return err
	}
	m.Ratio, m.CG, m.CL = p.Ratio, w.covarianceOut(m1), w.covarianceOut(sigma)
	m.BG, m.BL = w.directionsOut(p.BG), w.directionsOut(p.BL)
	return nil
}

// families is the M-step in a family of metrics. A singular matrix gets the ridge that a split would give it.
func (l *Learner) families(m1, m2 *mat.SymDense) (parts, *mat.SymDense, error) {
	var root *mat.SymDense
	var err error
	for _, r := range ridges {
		one, two := ridge(m1, r), ridge(m2, r)
		if root, err = inverseRoot(one); err != nil {
			continue
		}
		var p parts
		var sigma *mat.SymDense
		if p, sigma, err = mStep(l.cfg.Kind, l.cfg.Metric, l.cfg.Rank, one, root, two, Auto); err == nil {
			return p, sigma, nil
		}
	}
	return parts{}, nil, err
}

// coordinates returns W for the model's Coordinates and Components.
func (l *Learner) coordinates(m *Model) (*mat.Dense, error) {
	if m.Coordinates != CoordinatesAligned {
		return whitening(m.BL, m.BG, m.Coordinates, m.Components), nil
	}
	return l.aligned.whitening(m.BL, m.BG, m.Components, flat(m.CG))
}

// working returns the units of now, for the functions of a batch fit.
func (l *Learner) working() *working {
	f := l.metric.frame
	return &working{dim: l.cfg.Dim, active: f.active, constant: f.constant(l.cfg.Dim), mean: l.globals.mean, scale: f.scale}
}

// covarianceIn brings a dim×dim covariance into working units, active columns only.
func (w *working) covarianceIn(c []float64, dim int) *mat.SymDense {
	out := mat.NewSymDense(len(w.active), nil)
	for a, k := range w.active {
		for b := a; b < len(w.active); b++ {
			out.SetSym(a, b, c[k*dim+w.active[b]]/(w.scale[a]*w.scale[b]))
		}
	}
	return out
}

// flat returns both triangles of a symmetric matrix, row by row.
func flat(s *mat.SymDense) []float64 {
	return mat.DenseCopyOf(s).RawMatrix().Data
}

// info returns how the model came to be.
func (l *Learner) info() Info {
	i := Info{
		Rows: l.counts.Rows, Learnt: l.counts.Learnt, NLL: math.NaN(), GaussianNLL: math.NaN(),
		Gamma: l.cfg.Gamma, Nu: l.cfg.Nu, NuGaussian: l.cfg.NuGaussian, NuUnit: l.cfg.NuUnit,
		Minibatch: l.cfg.Minibatch, PassRows: l.cfg.memory(l.counts.Since, l.cfg.Dim),
		Alarms: l.counts.Alarms, Gated: l.counts.Gated, Copies: l.counts.Copies,
		Constant: l.metric.constant(l.cfg.Dim), Drift: l.aligned.radians,
	}
	if l.running.Weight > 0 {
		i.NLL, i.GaussianNLL, i.Effective = l.running.NLL, l.running.GaussianNLL, l.running.Effective
	}
	return i
}

// Info returns how far the learner has come; it is what the next Model would carry.
func (l *Learner) Info() Info {
	if l.metric == nil {
		return Info{Rows: l.counts.Rows, NLL: math.NaN(), GaussianNLL: math.NaN(), Effective: math.NaN()}
	}
	return l.info()
}
