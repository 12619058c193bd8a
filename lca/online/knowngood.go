package online

import (
	"math"
	"slices"
)

const (
	// forgottenShare of a former regime's rows may be refused, which it knew, by one that is kept in its place.
	forgottenShare = 0.01
	// forgottenNats is by how much −log p of those rows may rise in the mean: it does where one of two kinds becomes rare.
	forgottenNats = 0.1
	// knownRefused is the share of rows that a former regime may refuse if it knows them: it has fewer neighbours than it had.
	knownRefused = 0.25
)

// A learner with Drift off has been told that what it learns at first is all there is: nothing that differs is ever learnt. Nor may it forget any of that. A
// machine that rests for longer than the pool has rows would leave a model of its rest alone, which refuses all rows when it runs
// again, for good. So one former regime is kept: the newest that knew all that the one kept before it knew. It is tried where most rows of a minibatch are
// refused, and is current again if it knows them.
//
// It is asked seldom whether it can be replaced. What is forgotten little by little would be let go the same way.

// keepsKnown reports whether the learner keeps what it has known.
func (l *Learner) keepsKnown() bool {
	return !l.cfg.Drift && !l.cfg.Finite && !math.IsInf(l.cfg.OutlierGate, 1)
}

// knowsLittle reports whether most rows of a minibatch are refused, while a former regime may know them.
func (l *Learner) knowsLittle(far, rows int) bool {
	return l.keepsKnown() && len(l.former.regimes) > 0 && 2*far > rows
}

// keepKnown keeps the current regime if it knows what the one that is kept knows. It asks when the rows learnt have passed the warm-up's number times a power
// of two. before is counts.Since without the last minibatch.
func (l *Learner) keepKnown(before uint64) {
	if !l.keepsKnown() || !l.split || !doubled(before, l.counts.Since, uint64(l.cfg.warmupRows())) {
		return
	}
	if n := len(l.former.regimes); n > 0 {
		kept := &l.former.regimes[n-1]
		known := new(batch).sample(kept.pool.batch(), gateRows, 0, l.cfg.Dim)
		far, now := l.refused(known), slices.Clone(l.score(known))
		l.swap(kept)
		farBefore := l.refused(known)
		cost, _, _ := differences(now, l.score(known))
		l.swap(kept)
		if float64(far-farBefore) > forgottenShare*float64(known.len()) || cost > forgottenNats {
			return
		}
	}
	l.keepThis()
}

// refused returns how many rows are far from what the current regime knows.
func (l *Learner) refused(b batch) (far int) {
	l.estimator.load(l.pool, l.metric, l.work)
	_, _, far = l.judge(b, new(Step))
	return far
}

// keepThis keeps the current regime.
func (l *Learner) keepThis() {
	kept := l.former.regimes
	if l.former.regimes = nil; !l.remember() {
		l.former.regimes = kept
		return
	}
	one := &l.former.regimes[0] // the current regime goes on with what the two share
	one.moments = one.moments.clone()
	one.drift.quiet = one.drift.quiet.clone()
	one.gap = one.gap.clone()
}
