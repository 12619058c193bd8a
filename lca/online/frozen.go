package online

import (
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Frozen is what a learner has learnt up to one row. The learner may go on meanwhile: with many columns a model takes as
// long as several minibatches, a split and a rotation of its own, and Frozen.Model may run on another goroutine.
type Frozen struct {
	from  *model     // only what a model follows from. nil: it is young
	model *lca.Model // without what takes long
}

// Freeze returns a copy of what a model follows from. It costs about as much as copying a few matrices and the pool, and leaves
// the learner unchanged. Before the first update it returns ErrWarmup.
func (l *Learner) Freeze() (*Frozen, error) {
	if l.metric == nil || l.counts.Minibatches == 0 {
		return nil, ErrWarmup
	}
	m := &lca.Model{
		Dim: l.cfg.Dim, Mean: slices.Clone(l.moments.mean),
		Neighbours: make([]float32, len(l.pool.Rows)),
		Kind:       l.cfg.Kind, Metric: l.cfg.Metric, Kernel: l.cfg.Kernel, DOF: l.cfg.DOF,
		Recent: l.recent.evaluator(),
		Info:   l.info(),
	}
	for i := 0; i < len(l.pool.Rows); i += m.Dim {
		for k, mean := range m.Mean {
			m.Neighbours[i+k] = float32(l.pool.Rows[i+k] - mean)
		}
	}
	return &Frozen{l.frozen(), m}, nil
}

// frozen returns a model of which Frozen.Model uses the methods, and which shares no memory that l writes to.
func (l *model) frozen() *model {
	was := l.metric
	now := &metricState{ColumnScale: prop1.ColumnScale{Active: slices.Clone(was.Active), Scale: slices.Clone(was.Scale)}, parzen: was.parzen, alone: was.alone, thinBasis: was.thinBasis.clone()}
	if !was.alone {
		now.inverse, now.spanUpdate = slices.Clone(was.inverse), spanUpdate{keep: was.keep, fresh: slices.Clone(was.fresh)}
	}
	return &model{cfg: l.cfg, family: l.family, space: new(space), regime: regime{
		pool:    l.pool.Rowless(),
		moments: l.moments.clone(),
		cl:      slices.Clone(l.cl),
		metric:  now,
		aligned: reference{w: slices.Clone(l.aligned.w)},
		gap:     l.gap,
		gate:    l.gate,
	}}
}

// Model returns the model of Learner.Model at the row of Freeze. It is called once.
func (f *Frozen) Model() (*lca.Model, error) { return f.ModelIn(lca.CoordinatesAligned) }

// ModelIn is Model in other coordinates. With hundreds of columns it is half the work not to align them with the models before.
func (f *Frozen) ModelIn(coords lca.Coordinates) (*lca.Model, error) {
	l, m := f.from, f.model
	if l == nil {
		return m, nil
	}
	l.work = linalg.Borrow()
	defer l.work.Return()
	l.metric.current(l.cl, l.cl, l.cfg.Dim, l.work)
	if err := l.family.model(l, m, l.cl); err != nil {
		return nil, err
	}
	m.ScoreNeighbours(l.admissible())
	if coords != lca.CoordinatesAligned {
		return m.View(coords, l.cfg.Components)
	}
	m.Coordinates, m.Components = coords, l.cfg.Components
	var err error
	m.W, err = l.aligned.whitening(m)
	return m, err
}
