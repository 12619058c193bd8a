package online

import (
	"slices"

	"github.com/lca-stream/lca-stream/lca"
)

// A minibatch is odd if more than a tenth of its rows are far from all neighbours (gate.go), or if its
// NLL is far above those before (drift.go). Odd minibatches are not learnt but set aside, and the metric
// in force stays. Each minibatch that is as usual is learnt and outweighs an odd one: as many of the
// oldest rows set aside are forgotten. So a burst comes to nothing, and so does a fault that comes and goes.
//
// When Config.driftRows have gathered they are believed, which is the alarm, and the stream starts again
// as a fresh one does: they give the scales, μ, C_G, the pool and, all directions Parzen, the first metric.
// To go on from what there was costs more than it saves. The old neighbours are all far from the
// new rows, so λ says nothing, C_L comes out wider than C_G, and LCA-Gauss gives up directions that
// it never takes back; and C_G of both times together is of neither.
//
// With Drift off no odd minibatch is ever believed, and only far rows make one odd; where a gate in kernel
// widths is set, that alone decides, row by row. A finite set has none.

// isAnomalous says whether a minibatch is not as those before.
func (l *Learner) isAnomalous(far, rows int, s *Step) bool {
	switch {
	case l.cfg.Finite || s.Opened:
		return false
	case l.cfg.Drift:
		s.Z = l.drift.z(s.NLL)
	case l.cfg.OutlierGate != lca.Auto:
		return false
	}
	return s.Z > driftAlarm || tooManyFar(far, rows)
}

// acceptNormal takes note of a minibatch that is about to be learnt.
func (l *Learner) acceptNormal(rows int, s *Step) {
	l.drift.observe(s.NLL)
	forgotten := min(rows, len(l.warm.ids))
	l.warm.forget(forgotten, l.cfg.Dim)
	l.counts.Gated += uint64(forgotten) // they are never learnt
}

// quarantine keeps an odd minibatch, and starts again when there are enough.
func (l *Learner) quarantine(rows []float64, ids []uint64, s Step) (Step, error) {
	w, d, want := &l.warm, l.cfg.Dim, l.cfg.driftRows()
	if l.cfg.Drift {
		w.rows, w.ids = append(w.rows, rows...), append(w.ids, ids...)
		s.Quarantined = len(ids)
	} else {
		s.Gated += len(ids)
	}
	if len(w.ids) < want {
		l.updateCounters(&s)
		return s, nil
	}
	kept := screen(w.rows, d)
	first, ids := new(picked).pick(w.rows, w.ids, kept, d)
	fresh := newRunningMoments(l.cfg.momentsMemory(), d)
	fresh.start(first, &l.work)
	if len(fresh.columnScale(l.cfg.NuUnit).Active) == 0 { // nothing moves: keep the newest rows
		w.forget(len(w.ids)-want, d)
		l.updateCounters(&s)
		return s, nil
	}
	s.Alarm = true
	s.Gated += len(w.ids) - len(kept)
	l.updateCounters(&s)
	l.counts.Since = 0
	l.refit.drop()
	l.moments, l.pool = fresh, newPool(l.cfg.Pool, l.cfg.Neighbours, d, l.cfg.Seed)
	clear(l.cl)
	l.split, l.drift, l.warm = false, drift{}, warmup{}
	return l.initialise(first, ids, s)
}

// forget drops the oldest rows.
func (w *warmup) forget(rows, d int) {
	if rows == 0 {
		return
	}
	w.rows, w.ids = slices.Clone(w.rows[rows*d:]), slices.Clone(w.ids[rows:])
}
