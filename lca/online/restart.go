package online

import (
	"context"
	"math"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/watch"
)

// A minibatch is anomalous if more than a tenth of its rows are far from all neighbours (gate.go), or if its NLL is far
// above that of recent ones (drift.go), unless the pool's own rows are like that. Anomalous minibatches are not learnt but kept in quarantine, and the metric
// stays. Each normal minibatch is learnt and outweighs an anomalous one: as many of the oldest rows in quarantine are
// dropped. So a burst has no effect, and neither has a fault that comes and goes.
//
// When Config.driftRows are in quarantine, the change is believed: this is the alarm. The learner then restarts from
// those rows as a new one would start. They give the scales, μ, C_G, the pool and, with all directions Parzen, the
// first metric. To go on from the old state instead costs more than it saves. The old neighbours are all far from the
// new rows, so λ says nothing, C_L becomes wider than C_G, and LCA-Gauss gives up directions that it never takes
// back; and a C_G of both periods together describes neither.
//
// With Drift off no change is believed but what someone accepts (holds.go). Only far rows make a minibatch anomalous, or columns that are stuck or quiet, and it is
// not kept; of far rows, a gate in kernel widths decides row by row.
//
// A finite set has no order. So a stretch of it need not be as likely as those before it: only far rows make a minibatch
// anomalous. A change that is believed is another part of the set, and joins the rest (learner.go).

// changeWatch judges minibatches: is this one as those before it?
type changeWatch struct {
	warmup
	lockout watch.Refusals
	rests   rests
}

// isAnomalous says whether a minibatch differs from the recent ones; it sets s.Z.
func (l *changeWatch) isAnomalous(j judgement, s *Step) bool {
	switch {
	case s.Opened:
		return false
	case l.watchesColumns():
		quiet := l.drift.quiet.measure(l, j.inside, j.moments)
		l.stuck = l.isStuck(j.inside)
		quiet = quiet && j.inside.EqualFirst(l.cfg.Dim) < j.inside.Len() // equal rows vary in nothing, which isStuck judges
		if l.cfg.Drift {
			s.Z = l.drift.nll.Z(s.NLL)
		}
		if quiet || l.stuck || s.Z > driftAlarm && l.rarelyUnlikely(j.moments) {
			return true
		}
	}
	return (l.cfg.Drift || l.cfg.OutlierGate == lca.Auto) && l.manyFar(j.far, j.all.Len())
}

// watchesColumns reports whether columns that are stuck or quiet make a minibatch anomalous. A finite set has no order, and with Drift off and no gate everything is learnt.
func (l *changeWatch) watchesColumns() bool {
	return !l.cfg.Finite && (l.cfg.Drift || !math.IsInf(l.cfg.OutlierGate, 1))
}

// manyFar says whether that number of far rows is too large for the outliers of the stream. Where they are usual, a tenth is no more
// than there are now and then. By kernel distance more may be far from the first minibatch on.
func (l *changeWatch) manyFar(far, rows int) bool {
	if l.usesScores() {
		return float64(far) > (manyRows+2*l.drift.far.Mean)*float64(rows)
	}
	if !tooManyFar(far, rows) {
		return false
	}
	return l.cfg.OutlierGate != lca.Auto || float64(far) > (manyRows+2*l.farOfPool())*float64(rows)
}

// acceptNormal records the NLL of a minibatch that is about to be learnt, and drops as many rows from quarantine. Rows
// to which the gate opens may be any number of nats away, and those before them are not all that there is. What is usual
// shows in the minibatches that follow: the level of both would hide a change until it has forgotten them.
func (l *changeWatch) acceptNormal(j judgement, s *Step) {
	rows := j.inside.Len()
	l.drift.far.Observe(float64(j.far) / float64(max(rows, 1)))
	if s.Opened {
		l.drift.nll = watch.Level{}
	} else {
		l.drift.nll.Observe(s.NLL)
		if l.watchesColumns() {
			l.drift.quiet.observe(l.metric.Active)
		}
	}
	s.Released += l.release(min(rows, l.warm.Len()))
}

// release drops the oldest rows in quarantine, which are never learnt.
func (l *changeWatch) release(rows int) int {
	l.warm.Forget(rows, l.cfg.Dim)
	l.counts.Gated += uint64(rows)
	return rows
}

// quarantine keeps an anomalous minibatch, and restarts when there are enough rows.
func (l *Learner) quarantine(b pool.Batch, s Step) (Step, error) {
	w, d := &l.warm, l.cfg.Dim
	if l.cfg.Drift || l.unusual.leaves != nil {
		w.Append(b)
		s.Quarantined = b.Len()
	} else {
		s.Gated, s.Released = s.Gated+b.Len(), b.Len()
	}
	want := l.patience()
	if w.Len() < want {
		l.updateCounters(&s)
		return s, nil
	}
	if l.cfg.Finite {
		return l.join(s)
	}
	kept := screen(w.X, d)
	first := new(pool.Batch).Pick(*w, kept, d)
	if !l.moves(w.X) { // keep the newest rows
		if w.Len()-b.Len() < want { // say so, once
			s.Alarm, s.Still = AlarmRefused, true
			l.lockout.Tell()
		}
		w.Forget(w.Len()-want, d)
		l.updateCounters(&s)
		return s, nil
	}
	if s.Alarm = AlarmDrift; l.lockout.Tripped {
		s.Alarm = AlarmLockout
	}
	s.Gated += w.Len() - len(kept)
	l.updateCounters(&s)
	w.Forget(w.Len(), d) // all of them are counted
	return l.restart(first, s)
}

// moves reports whether any column has moved in the rows of quarantine. Those of the first minibatch do not count: all may have stopped in the midst of it.
func (l *changeWatch) moves(x []float64) bool {
	if first := l.cfg.Minibatch * l.cfg.Dim; len(x) > first {
		x = x[first:]
	}
	moments := newRunningMoments(l.cfg.momentsMemory(), l.cfg.Dim)
	moments.start(x, l.work)
	return len(moments.columnScale(l.cfg.NuUnit).Active) > 0
}

// restart leaves the current regime, and begins with the given rows as with the first of a stream.
func (l *Learner) restart(first pool.Batch, s Step) (Step, error) {
	l.leave()
	l.keepFormer()
	next := emptyRegime(l.asked.resolved())
	next.aligned = l.aligned
	l.setRegime(next)
	l.reviseGap(first)
	return l.initialise(first, s)
}

// join learns the rows in quarantine in addition to all rows before them. A finite set may be sorted: what begins in the
// midst of it is no new regime that replaces the former one, but another part of the set. A fault that is over before
// it is believed is left out of a finite set as it is of a stream.
//
// As after a restart, EM runs from C_G on the pool, with all directions Parzen, because C_L as it was knows only
// the former part.
func (l *Learner) join(s Step) (Step, error) {
	b, compared := l.warm, l.choice.began > 0
	l.warm, l.lockout = pool.Batch{}, watch.Refusals{}
	l.choice.drop() // its candidates know only the former part
	l.moments.learn(b.X, l.work)
	s.Entered, s.Joined, s.Learnt = l.offerToPool(b, nil), b.Len(), b.Len()
	l.renewEstimator() // it knows the former rows of the pool
	if err := l.startFromGlobal(); err != nil {
		return Step{}, err
	}
	if _, err := l.convergeOnPool(context.Background(), l.pool.Batch(), &s); err != nil {
		return Step{}, err
	}
	l.drift = drift{}
	l.insideGate(new(pool.Batch).Sample(l.pool.Batch(), gateRows, int(l.gate.turn), l.cfg.Dim))
	l.renewEstimator()
	l.updateCounters(&s)
	if compared {
		l.startChoice()
	}
	return s, l.aligned.advance(&l.model)
}
