package online

import (
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// A minibatch is anomalous if more than a tenth of its rows are far from all neighbours (gate.go), or if its NLL is far
// above that of recent ones (drift.go), unless the pool's own rows are like that (bypool.go). Anomalous minibatches are not learnt but kept in quarantine, and the metric
// stays. Each normal minibatch is learnt and outweighs an anomalous one: as many of the oldest rows in quarantine are
// dropped. So a burst has no effect, and neither has a fault that comes and goes, unless it is one row in ten (recurring.go).
//
// When Config.driftRows are in quarantine, the change is believed: this is the alarm. The learner then restarts from
// those rows as a new one would start. They give the scales, μ, C_G, the pool and, with all directions Parzen, the
// first metric. To go on from the old state instead costs more than it saves. The old neighbours are all far from the
// new rows, so λ says nothing, C_L becomes wider than C_G, and LCA-Gauss gives up directions that it never takes
// back; and a C_G of both periods together describes neither.
//
// With Drift off only far rows make a minibatch anomalous, or columns that are stuck or quiet, and it is not kept; of far rows, a gate in kernel
// widths decides row by row. Such a learner never restarts, and forgets nothing that it has known (knowngood.go).
//
// A finite set has no order. So a stretch of it need not be as likely as those before it: only far rows make a minibatch
// anomalous. A change that is believed is another part of the set, and joins the rest (join.go).

// isAnomalous says whether a minibatch differs from the recent ones; it sets s.Z.
func (l *Learner) isAnomalous(b batch, m *kernel.Moments, far, rows int, s *Step) bool {
	switch {
	case s.Opened:
		return false
	case l.watchesColumns():
		quiet := l.drift.quiet.measure(l, b, m)
		stuck, judged := l.isStuck(b, 0)
		quiet = quiet && !judged // equal rows vary in nothing, which isStuck judges
		if l.cfg.Drift {
			s.Z = l.drift.nll.z(s.NLL)
		}
		if quiet || stuck || s.Z > driftAlarm && l.rarelyUnlikely(m) {
			return true
		}
	}
	return (l.cfg.Drift || l.cfg.OutlierGate == lca.Auto) && l.manyFar(far, rows)
}

// watchesColumns reports whether columns that are stuck or quiet make a minibatch anomalous. A finite set has no order, and with Drift off and no gate
// everything is learnt.
func (l *Learner) watchesColumns() bool { return !l.cfg.Finite && (l.cfg.Drift || l.keepsKnown()) }

// manyFar says whether that number of far rows is too large for the outliers of the stream. Where they are usual, a tenth is no more
// than there are now and then. By kernel distance more may be far from the first minibatch on.
func (l *Learner) manyFar(far, rows int) bool {
	if l.usesScores() {
		return float64(far) > (manyRows+2*l.drift.far.mean)*float64(rows)
	}
	if !tooManyFar(far, rows) {
		return false
	}
	return l.cfg.OutlierGate != lca.Auto || float64(far) > (manyRows+2*l.farOfPool())*float64(rows)
}

// acceptNormal records the NLL of a minibatch that is about to be learnt, and drops as many rows from quarantine. Rows
// to which the gate opens may be any number of nats away, and those before them are not all that there is. What is usual
// shows in the minibatches that follow: the level of both would hide a change until it has forgotten them.
func (l *Learner) acceptNormal(far, rows int, s *Step) {
	l.drift.far.observe(float64(far) / float64(max(rows, 1)))
	if s.Opened {
		l.drift.nll = level{}
	} else {
		l.drift.nll.observe(s.NLL)
		if l.watchesColumns() {
			l.drift.quiet.observe(l.metric.Active)
		}
	}
	s.Released += l.release(min(rows, l.warm.len()))
	l.recurring.normal += uint64(rows)
}

// release drops the oldest rows in quarantine, which are never learnt.
func (l *Learner) release(rows int) int {
	if rows > 0 && l.watchesRecurring() {
		d, w := l.cfg.Dim, &l.warm
		l.recurring.add(batch{w.x[:rows*d], w.ids[:rows], w.places[:rows]}, l.patience(), l.counts.Rows, d)
	}
	l.warm.forget(rows, l.cfg.Dim)
	l.counts.Gated += uint64(rows)
	return rows
}

// patience returns how many rows in quarantine make a restart.
func (l *Learner) patience() int {
	want := l.cfg.driftRows()
	if l.lockout.tripped {
		want = l.cfg.warmupRows()
	}
	if l.cfg.DriftRows == lca.Auto && l.cfg.WarmupRows == lca.Auto {
		want = stretched(want, l.gap.rows, l.cfg.Neighbours)
	}
	return want
}

// quarantine keeps an anomalous minibatch, and restarts when there are enough rows.
func (l *Learner) quarantine(b batch, s Step) (Step, error) {
	w, d := &l.warm, l.cfg.Dim
	if l.cfg.Drift {
		if r := &l.recurring; r.episode == 0 || r.normal*recurringApart >= uint64(l.patience()) {
			r.episode++
		}
		l.recurring.normal = 0
		w.append(b)
		s.Quarantined = b.len()
	} else {
		s.Gated, s.Released = s.Gated+b.len(), b.len()
	}
	want := l.patience()
	if l.wakes() {
		want = min(want, l.cfg.warmupRows())
	}
	if w.len() < want {
		l.updateCounters(&s)
		return s, nil
	}
	if l.cfg.Finite {
		return l.join(s)
	}
	if l.formerOnItsWay(b) {
		l.updateCounters(&s)
		return s, nil
	}
	kept := screen(w.x, d)
	first := new(batch).pick(*w, kept, d)
	if !l.moves(w.x) { // keep the newest rows
		if w.len()-b.len() < want { // say so, once
			s.Alarm, s.Still, l.lockout.lasting = AlarmRefused, true, refusedRows
		}
		w.forget(w.len()-want, d)
		l.updateCounters(&s)
		return s, nil
	}
	if s.Alarm = AlarmDrift; l.lockout.tripped {
		s.Alarm = AlarmLockout
	}
	s.Gated += w.len() - len(kept)
	l.updateCounters(&s)
	w.forget(w.len(), d) // all of them are counted
	return l.restart(first, s)
}

// moves reports whether any column has moved in the rows of quarantine. Those of the first minibatch do not count: all may have stopped in the midst of it.
func (l *Learner) moves(x []float64) bool {
	if first := l.cfg.Minibatch * l.cfg.Dim; len(x) > first {
		x = x[first:]
	}
	moments := newRunningMoments(l.cfg.momentsMemory(), l.cfg.Dim)
	moments.start(x, l.work)
	return len(moments.columnScale(l.cfg.NuUnit).Active) > 0
}

// restart leaves the current regime, and begins with the given rows: with them alone, or with those of a brief regime (brief.go). Rows of
// the regime that is left may be among them (transition.go).
func (l *Learner) restart(first batch, s Step) (Step, error) {
	brief, was := l.briefRows(first.len()), former{l.regime, l.counts.Since}
	begin := func() {
		l.setRegime(regime{settings: l.asked.resolved().recipe(), aligned: was.aligned, cl: make([]float64, l.cfg.Dim*l.cfg.Dim), gap: newTimeGap(l.cfg)})
		l.gap.learn(first, l.cfg.Dim)
		l.gap.revise()
	}
	l.leave()
	l.turn()
	l.counts.Since = 0
	begin()
	alone := s
	b, used, err := l.fitInside(first, &alone)
	if err != nil {
		return Step{}, err
	}
	alone.Gated, alone.Learnt = alone.Gated+first.len()-b.len(), used
	if brief.len() > 0 && used > 0 {
		if both, ok := l.learnTogether(begin, brief, first, s); ok {
			l.former.left = false
			if err := l.chooseBeginning(both.Learnt, &both); err != nil {
				return Step{}, err
			}
			return l.begun(both, both.Gated-s.Gated)
		}
	}
	l.swap(&was)
	l.former.left = l.remember()
	l.swap(&was)
	if err := l.chooseBeginning(b.len(), &alone); err != nil {
		return Step{}, err
	}
	if s, err = l.begun(alone, alone.Gated-s.Gated); err != nil {
		return Step{}, err
	}
	recent := make([]int, first.len()/transitionRecent)
	for i := range recent {
		recent[i] = first.len() - len(recent) + i
	}
	return s, l.leaveOutFormer(new(batch).pick(first, recent, l.cfg.Dim), &s)
}
