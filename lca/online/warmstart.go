package online

import (
	"errors"
	"fmt"
	"math"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/recent"
)

// WarmStart makes the model what has been learnt so far, so that a stream goes on from a snapshot
// without its learner's state: μ, C_G, C_L, the pool, the memory n and what scores the last rows are the model's, and series begin. The learner
// must be fresh. Of a model that is Young, that is what scores the last rows and no more. Near copies take care of rows that the snapshot's pool holds and that come again,
// since a snapshot knows no identities.
func (l *Learner) WarmStart(m *lca.Model) error {
	d := l.cfg.Dim
	switch {
	case m.Dim != d:
		return fmt.Errorf("lca: warm start: model of %d columns, learner of %d", m.Dim, d)
	case l.counts.Rows > 0:
		return errors.New("lca: warm start: the learner has learnt already: make a new one")
	case m.Young():
		if l.counts.Rows = m.Info.Rows; l.recent.learner != nil {
			l.recent.learner = recent.Resume(m.Recent)
		}
		return nil
	case len(m.Neighbours) < d*2 || len(m.Neighbours)%d != 0:
		return errors.New("lca: warm start: the model has no neighbours: import its neighbours part too")
	}
	n := len(m.Neighbours) / d
	b := pool.Batch{X: make([]float64, len(m.Neighbours)), IDs: make([]uint64, n), Places: make([]pool.Place, n)}
	for k, v := range m.Neighbours {
		b.X[k] = m.Mean[k%d] + float64(v)
	}
	for i := range n {
		b.IDs[i] = pool.Mix(pool.Mix(m.Info.Rows) + uint64(i))
		b.Places[i].Partition = pool.NoPartition
	}
	next, err := NewLearner(l.asked)
	if err != nil {
		return err
	}
	next.offerToPool(b, nil)
	copy(next.moments.mean, m.Mean)
	cl, cg := withoutNu(m)
	copy(next.moments.cov, cg)
	next.moments.count = min(math.Max(float64(m.Info.Learnt), 1), next.moments.memory)
	active := next.moments.columnScale(l.cfg.NuUnit).Active
	if len(active) == 0 {
		return errors.New("lca: warm start: all columns of the model's neighbours are constant")
	}
	copy(next.cl, cl)
	enter(next.cl, d, varying(next.cl, d), active, next.moments.cov)
	next.counts = counts{
		Rows: m.Info.Rows, Learnt: m.Info.Learnt, Gated: m.Info.Gated, Copies: m.Info.Copies, Alarms: [...]uint64{AlarmDrift: m.Info.Alarms, AlarmRefused: 0},
		Minibatches: 1,
	}
	next.since = uint64(m.Info.PassRows / growthShare)
	if _, err := next.updateMetric(1); err != nil {
		return fmt.Errorf("lca: warm start: %w", err)
	}
	next.split = true
	if next.recent.learner != nil && m.Recent != nil && m.Recent.Dim == d {
		next.recent.learner = recent.Resume(m.Recent)
	}
	if m.Coordinates == lca.CoordinatesAligned && m.Components == lca.ComponentsAll {
		next.aligned.w, next.aligned.parzen = linalg.Elements(m.W), linalg.Elements(m.BL)
	}
	*l = *next
	return nil
}

// withoutNu returns C_L and C_G of a model without ν and ν_g. In the relative unit ν s² is on the diagonal, and s² is a
// column's variance, which the published C_G has with its own ν_g: C_G,kk = (1+ν_g) s². In absolute units s = 1.
func withoutNu(m *lca.Model) (cl, cg []float64) {
	i, d := m.Info, m.Dim
	cl, cg = linalg.Elements(m.CL), linalg.Elements(m.CG)
	if i.NuUnit == lca.UnitCovariance {
		return prop1.WithoutCovariance(cl, cg, d, i.Nu, i.NuGaussian)
	}
	for k := range d {
		square := cg[k*d+k] / (1 + i.NuGaussian)
		if i.NuUnit == lca.UnitAbsolute && square > 0 {
			square = 1
		}
		cl[k*d+k] -= i.Nu * square
		cg[k*d+k] -= i.NuGaussian * square
	}
	return cl, cg
}

// varying returns the columns of a covariance that have a variance.
func varying(c []float64, d int) (out []int) {
	for k := range d {
		if c[k*d+k] > 0 {
			out = append(out, k)
		}
	}
	return out
}
