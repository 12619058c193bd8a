package online

import "github.com/lca-stream/lca-stream/lca"

// A minibatch is anomalous if more than a tenth of its rows are far from all neighbours (gate.go), or if its NLL is far
// above that of recent ones (drift.go). Anomalous minibatches are not learnt but kept in quarantine, and the metric
// stays. Each normal minibatch is learnt and outweighs an anomalous one: as many of the oldest rows in quarantine are
// dropped. So a burst has no effect, and neither has a fault that comes and goes.
//
// When Config.driftRows are in quarantine, the change is believed: this is the alarm. The learner then restarts from
// those rows as a new one would start. They give the scales, μ, C_G, the pool and, with all directions Parzen, the
// first metric. To go on from the old state instead costs more than it saves. The old neighbours are all far from the
// new rows, so λ says nothing, C_L becomes wider than C_G, and LCA-Gauss gives up directions that it never takes
// back; and a C_G of both periods together describes neither.
//
// With Drift off the learner never restarts, and only far rows make a minibatch anomalous; with a gate in kernel
// widths, that gate alone decides, row by row. A finite set has no anomalous minibatch.

// isAnomalous says whether a minibatch differs from the recent ones; it sets s.Z.
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

// acceptNormal records the NLL of a minibatch that is about to be learnt, and drops as many rows from quarantine.
func (l *Learner) acceptNormal(rows int, s *Step) {
	l.drift.observe(s.NLL)
	forgotten := min(rows, l.warm.len())
	l.warm.forget(forgotten, l.cfg.Dim)
	l.counts.Gated += uint64(forgotten) // they are never learnt
}

// quarantine keeps an anomalous minibatch, and restarts when there are enough rows.
func (l *Learner) quarantine(b batch, s Step) (Step, error) {
	w, d, want := &l.warm, l.cfg.Dim, l.cfg.driftRows()
	if l.cfg.DriftRows == lca.Auto && l.cfg.WarmupRows == lca.Auto {
		want = l.gap.stretched(want, l.cfg.Neighbours)
	}
	if l.cfg.Drift {
		w.append(b)
		s.Quarantined = b.len()
	} else {
		s.Gated += b.len()
	}
	if w.len() < want {
		l.updateCounters(&s)
		return s, nil
	}
	kept := screen(w.x, d)
	first := new(batch).pick(*w, kept, d)
	fresh := newRunningMoments(l.cfg.momentsMemory(), d)
	fresh.start(first.x, &l.work)
	if len(fresh.columnScale(l.cfg.NuUnit).Active) == 0 { // nothing moves: keep the newest rows
		w.forget(w.len()-want, d)
		l.updateCounters(&s)
		return s, nil
	}
	s.Alarm = true
	s.Gated += w.len() - len(kept)
	l.updateCounters(&s)
	l.counts.Since = 0
	l.refit.drop()
	l.moments, l.pool = fresh, newPool(l.cfg.Pool, l.cfg.Neighbours, d, l.cfg.Seed)
	clear(l.cl)
	l.split, l.drift, l.warm = false, drift{}, batch{}
	l.gap = newTimeGap(l.cfg)
	l.gap.learn(first, d)
	l.gap.revise()
	return l.initialise(first, s)
}
