package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

const (
	// forgottenShare of a former regime's rows may be refused, which it knew, by one that is kept in its place.
	forgottenShare = 0.01
	// forgottenNats is by how much −log p of those rows may rise in the mean: it does where one of two kinds becomes rare.
	forgottenNats = 0.1
	// knownRefused is the share of rows that a former regime may refuse if it knows them: it has fewer neighbours than it had.
	knownRefused = 0.25
	// knownRows are refused, more than others were learnt since, before a former regime is tried: one row tells little.
	knownRows = 100
	// outweighs is how many rows that are learnt take one off those that were refused: stretches that come again after a while add up.
	outweighs = 10
)

// A learner with Drift off has been told that what it learns at first is all there is: nothing that differs is ever learnt. Nor may it forget any of that. A
// machine that rests for longer than the pool has rows would leave a model of its rest alone, which refuses all rows when it runs
// again, for good. So one former regime is kept: the newest that knew all that the one kept before it knew. It is tried where most rows are
// refused, and is current again if it knows them.
//
// It may be old: a machine that wears moves away from it, and rows of a fault may be as normal rows were then. So each regime that is
// replaced is kept as well, and tried, until the current one knows its rows, or others are newer.
//
// It is asked seldom whether it can be replaced. What is forgotten little by little would be let go the same way.

// keepsKnown reports whether the learner keeps what it has known.
func (c Config) keepsKnown() bool {
	return !c.Drift && !c.Finite && !math.IsInf(c.OutlierGate, 1)
}

// noteRefused keeps a minibatch that was refused, or of which most rows were. Others outweigh it in time.
func (l *regimes) noteRefused(b pool.Batch, refused bool) {
	if !l.cfg.keepsKnown() {
		return
	}
	most, d := l.cfg.driftRows(), l.cfg.Dim
	if !refused {
		l.held.Forget(min((b.Len()+outweighs-1)/outweighs, l.held.Len()), d)
		return
	}
	if l.held.Append(b); l.held.Len() > 2*most { // seldom, because it copies them
		l.held.Forget(l.held.Len()-most, d)
	}
}

// knownReturns tries the regimes that are kept on the last rows, which were refused, and makes the best one current if it knows them.
func (l *regimes) knownReturns(all pool.Batch) bool {
	missing, d := max(0, knownRows-all.Len()), l.cfg.Dim
	kept := l.former.regimes
	if !l.cfg.keepsKnown() || len(kept) == 0 || missing > l.held.Len() {
		return false
	}
	recent := all
	if first := l.held.Len() - missing; missing > 0 {
		recent = l.held.Part(first, l.held.Len(), d).Clone()
		recent.Append(all)
	}
	best := l.bestFormer(math.Inf(1), func() (float64, bool) {
		nll, ok := l.explains(recent)
		return nll, ok && !l.isStuck(all)
	})
	if best < 0 {
		return false
	}
	back := kept[best]
	if best > 0 {
		l.former.regimes = slices.Delete(kept, best, best+1)
	}
	l.keepFormer()
	l.setRegime(back)
	l.choice.drop()
	l.held = pool.Batch{}
	if best == 0 {
		l.keepThis()
	}
	l.estimator.load(l.pool, l.metric, l.work)
	return true
}

// keepKnown keeps the current regime if it knows what the one that is kept knows. It asks when the rows learnt have passed the warm-up's number times a power
// of two. before is regime.since without the last minibatch.
func (l *regimes) keepKnown(before uint64) {
	if !l.cfg.keepsKnown() || !l.split || !doubled(before, l.since, uint64(l.cfg.warmupRows())) {
		return
	}
	kept := l.former.regimes
	for i := len(kept) - 1; i > 0; i-- {
		if l.stillKnows(&kept[i]) {
			kept = slices.Delete(kept, i, i+1)
		}
	}
	if l.former.regimes = kept; len(kept) == 0 || l.stillKnows(&kept[0]) {
		l.keepThis()
	}
}

// stillKnows reports whether the current regime knows the rows that a former one knows.
func (l *regimes) stillKnows(kept *regime) bool {
	known := new(pool.Batch).Sample(kept.pool.Batch(), gateRows, 0, l.cfg.Dim)
	far, now := l.refused(known), slices.Clone(l.score(known))
	l.swap(kept)
	farBefore := l.refused(known)
	cost, _, _ := differences(now, l.score(known))
	l.swap(kept)
	return float64(far-farBefore) <= forgottenShare*float64(known.Len()) && !(cost > forgottenNats)
}

// keepThis keeps the current regime, in place of the one that knew all before.
func (l *regimes) keepThis() {
	if most, _ := formerRing(l.cfg.Neighbours, l.cfg.Dim); most == 0 {
		return
	}
	others := l.former.regimes[min(1, len(l.former.regimes)):]
	l.former.regimes = others
	if one, ok := l.thinned(); ok {
		l.former.regimes = append([]regime{one}, others...)
	}
}
