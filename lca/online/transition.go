package online

import (
	"math"
	"slices"
)

const (
	transitionRecent = 4    // one in this many rows of a restart is recent
	transitionShare  = 0.02 // share of the recent rows that may be like those of the regime that was left
	transitionSurely = 3    // standard errors
	transitionRows   = 1000 // rows in quarantine until which a transition to a former regime may last
)

// A change may take its time: at first a few rows are of the next regime, and at last all. The rows in quarantine are then of
// both, and a restart would know both. The regime that was left would be known when it returns, so that there would be no alarm,
// and the metric would be that of neither. So when the change is over, the rows of the former regime are left out: those that
// its metric explains better than the current one, and by more than all but a few of the recent rows. There must be surely
// more of them than of recent ones. This is tried at the restart and each time that the number of rows learnt has
// doubled since.
//
// In the same way a former regime returns row by row. A restart that is due waits for it, for a while, if it is on its
// way: if most of the rows that the current regime refuses are known to the former one.

// leaveOutFormer leaves rows of the regime that was left out of the pool, if they do not come any more. recent are the last rows.
func (l *Learner) leaveOutFormer(recent batch, s *Step) error {
	if !l.former.left || !l.split || recent.len() == 0 {
		return nil
	}
	all := new(batch)
	all.append(l.pool.batch())
	was := slices.Clone(l.score(recent))
	better := l.betterUnderFormer(*all)
	few := l.betterUnderFormer(recent)
	slices.Sort(few)
	margin := max(0, few[int((1-transitionShare)*float64(len(few)-1))])
	var kept []int
	for i, v := range better {
		if !(v > margin) {
			kept = append(kept, i)
		}
	}
	share := 1 - float64(len(kept))/float64(len(better))
	standardError := math.Sqrt(share * (1 - share) / l.independent(len(few)))
	if !(share-transitionShare > transitionSurely*standardError) || !l.worthReplaying(len(kept)) {
		l.estimator.load(l.pool, l.metric, l.work)
		return nil
	}
	if _, err := l.fitFirst(new(batch).pick(*all, kept, l.cfg.Dim), s); err != nil {
		return err
	}
	l.split = true
	if err := l.chooseBeginning(len(kept), s); err != nil {
		return err
	}
	if l.drift.nll.seen >= driftSettle { // a young level stays young
		l.drift.nll.moveTo(was, l.score(recent), float64(l.cfg.Minibatch))
	}
	l.drift.quiet = quietColumns{} // its figures are about the former mean
	l.estimator.load(l.pool, l.metric, l.work)
	l.setGate(l.pool.batch())
	l.renewEstimator()
	return nil
}

// transitionDue says whether the rows learnt have just passed the warm-up's number times a power of two.
func (l *Learner) transitionDue(before uint64) bool {
	return doubled(before, l.counts.Since, uint64(l.cfg.warmupRows()))
}

// betterUnderFormer returns by how many nats the last former regime explains each row better than the current one; NaN for one that
// either has no neighbour for.
func (l *Learner) betterUnderFormer(b batch) []float64 {
	better := slices.Clone(l.score(b))
	f := &l.former.regimes[len(l.former.regimes)-1]
	l.swap(f)
	for i, v := range l.score(b) {
		better[i] -= v
	}
	l.swap(f)
	return better
}

// formerOnItsWay reports whether a former regime knows most of the rows that the current one refuses.
func (l *Learner) formerOnItsWay(b batch) (on bool) {
	if !l.usesScores() || l.lockout.tripped || l.warm.len() >= transitionRows {
		return false
	}
	var refused []int
	for i, v := range l.score(b) {
		if v > l.gate.limit {
			refused = append(refused, i)
		}
	}
	b = new(batch).pick(b, refused, l.cfg.Dim)
	for i := range l.former.regimes {
		f := &l.former.regimes[i]
		l.swap(f)
		known := 0
		if l.usesScores() && b.len() > 0 {
			for _, v := range l.score(b) {
				if v <= l.gate.limit {
					known++
				}
			}
		}
		l.swap(f)
		on = on || 2*known > b.len()
	}
	return on
}
