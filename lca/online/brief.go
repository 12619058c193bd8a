package online

import (
	"math"
	"slices"
)

// A regime after which the stream changes again before as many rows have come as the pool holds is brief. A stream that changes
// as often is hardly ever as it was when it was learnt: its rows may be sorted, and its clusters come one after the other.
// Each restart would then know the last cluster alone. So at the end of a brief regime there are two candidates, one from the
// rows in quarantine alone, and one from these and as many rows of the brief regime. Both together are right for rows of which
// half are of either, and for the new rows alone they cost log 2 nats. If they cost no more than that, the changes are those
// of one law, and they are learnt together; where another law would have another kernel, they cost more.
//
// The first regime of a stream is not brief, however short: a first change may be the only one.

// briefRows returns rows of the current regime to be learnt with that number of new ones, none unless it is brief. The alarm at its
// end has been counted.
func (l *Learner) briefRows(rows int) (b batch) {
	if l.lockout.tripped || l.counts.Alarms < 2 || l.counts.Since >= uint64(l.cfg.Neighbours) {
		return batch{}
	}
	if most := min(rows, l.cfg.Neighbours-rows); most > 0 {
		b.append(new(batch).sample(l.pool.batch(), most, 0, l.cfg.Dim))
	}
	return b
}

// learnTogether begins with the rows of a brief regime and new ones, if they explain the new ones as well as can be. The
// current regime is that of the new ones alone, and stays otherwise.
func (l *Learner) learnTogether(begin func(), brief, first batch, s Step) (Step, bool) {
	alone, scores := l.regime, slices.Clone(l.score(first))
	both := brief
	both.append(first)
	begin()
	inside, used, err := l.fitInside(both, &s)
	if err == nil && used > 0 && costsAtMost(l.score(first), scores, math.Log1p(float64(brief.len())/float64(first.len()))) {
		s.Gated += both.len() - inside.len()
		s.Learnt = max(0, used-brief.len()) // the others have been counted before
		return s, true
	}
	l.setRegime(alone)
	return Step{}, false
}

// costsAtMost reports whether a is not above b by more than that and two standard errors of their difference, row by row.
func costsAtMost(a, b []float64, nats float64) bool {
	mean, squares, n := differences(a, b)
	return mean <= nats+choiceSurely*math.Sqrt(squares)/n
}
