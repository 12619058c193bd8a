package online

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// Model returns what has been learnt so far: the split of Proposition 1 for the current C_L and C_G,
// by eigendecomposition as Fit does it, and the pool as its neighbours. It leaves the learner
// unchanged: when and how often a model is published changes no bit of what is learnt.
//
// Before the first update it returns ErrWarmup.
func (l *Learner) Model() (*lca.Model, error) {
	f, err := l.Freeze()
	if err != nil {
		return nil, err
	}
	return f.Model()
}

// EvaluatorRows returns the rows behind the newest evaluator of the last rows, 0 where there is none yet.
func (l *Learner) EvaluatorRows() uint64 {
	if e := l.recent.evaluator(); e != nil {
		return e.Learnt
	}
	return 0
}

// FreezeYoung is Freeze of a model that is Young, for as long as Freeze returns ErrWarmup. It returns ErrWarmup before the first evaluator of the last rows.
func (l *Learner) FreezeYoung() (*Frozen, error) {
	e := l.recent.evaluator()
	if e == nil {
		return nil, ErrWarmup
	}
	waiting, _ := l.Waiting()
	m := &lca.Model{
		Dim: l.cfg.Dim, Mean: e.Centre, BG: new(mat.Dense), BL: new(mat.Dense), Recent: e,
		Kind: l.cfg.Kind, Metric: l.cfg.Metric, Kernel: l.cfg.Kernel, DOF: l.cfg.DOF, Coordinates: lca.CoordinatesAligned, Components: l.cfg.Components,
		Info: lca.Info{
			Rows: l.counts.Rows, Gated: l.counts.Gated, Minibatch: l.cfg.Minibatch, Wanted: uint64(waiting.Wanted),
			NLL: math.NaN(), GaussianNLL: math.NaN(), Effective: math.NaN(),
		},
	}
	return &Frozen{model: m}, nil
}

// admissible says which neighbours count for a row of the pool: those that would for a row to be learnt. What it returns is
// valid until the next windows of l.inTime.
func (l *model) admissible() lca.Admissible {
	a := lca.Admissible{Independent: l.moments.independent(max(1, l.gap)), Shrunk: l.shrinkage(l.metric.parzen)}
	if l.usesScores() {
		a.Limit = l.gate.limit
	}
	if order, window := l.inTime.Windows(l.pool.Places, l.pool.Places, l.gap); window != nil {
		a.Near = func(row int) []int32 { return order[window[row][0]:window[row][1]] }
	}
	return a
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

// info returns how the model came to be.
func (l *Learner) info() lca.Info {
	i := lca.Info{
		Rows: l.counts.Rows, Learnt: l.counts.Learnt, NLL: math.NaN(), GaussianNLL: math.NaN(),
		Gamma: l.cfg.Gamma, Nu: l.cfg.Nu, NuGaussian: l.cfg.NuGaussian, NuUnit: l.cfg.NuUnit, Rank: l.cfg.Rank,
		Minibatch: l.cfg.Minibatch, PassRows: l.cfg.memory(l.since, l.gap),
		Alarms: l.counts.restarts(), Gated: l.counts.Gated, Copies: l.counts.Copies,
		Wanted: uint64(l.wanted), Constant: l.metric.Constant(l.cfg.Dim), Drift: l.aligned.radians,
	}
	if l.cfg.NuUnit != lca.UnitAbsolute {
		i.Scales = l.metric.Scales(l.cfg.Dim, l.moments.sparse)
	}
	if chosen := l.chosen; len(chosen.Candidates) > 0 {
		i.Choice = &chosen
	}
	if l.running.Weight > 0 {
		i.NLL, i.GaussianNLL, i.Effective = l.running.NLL, l.running.GaussianNLL, l.running.Effective
	}
	return i
}

// Kernel returns the kernel that rows are scored with, which the data may have chosen.
func (l *Learner) Kernel() lca.Kernel { return l.cfg.Kernel }

// Info returns how far the learner has come; it is what the next Model would carry.
func (l *Learner) Info() lca.Info {
	if l.metric == nil {
		return lca.Info{Rows: l.counts.Rows, Gated: l.counts.Gated, NLL: math.NaN(), GaussianNLL: math.NaN(), Effective: math.NaN()}
	}
	return l.info()
}
