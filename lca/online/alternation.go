package online

// A machine that runs and rests in turn, some hundred rows each, is in one regime of two. While each has a metric of its own, the rows at
// each switch are refused until the other one is back: nearly half of all, where a regime lasts for as long as a change must. So when a regime
// returns, and both the one that is left and the one before were brief, the two are learnt together: the pool begins again with rows of
// both, each with its share of the rows that were learnt. That stays if it knows both.
//
// One brief regime is not enough: a fault may have been believed, and what came before it returns. The first regime of a stream is not
// brief, however short. Regimes that keep returning are brief if the pool still holds rows of one after it has learnt the other. Longer ones keep a
// metric each: there is an alarm at each return, and few rows are refused.

const (
	alternatesWithin = 0.75 // a regime is brief if it lasted for this many times the pool's rows, or less,
	alternatesLong   = 1.5  // or this many, where there were this many returns before for each time that the learner started again
	alternatesOften  = 2
	alternatesLeast  = 0.1 // least share of either
)

// turn notes that the current regime is left, and reports whether it and the one before were brief.
func (l *Learner) turn() (alternates bool) {
	f := &l.former
	rows := float64(l.counts.Minibatches-f.began) * float64(l.cfg.Minibatch)
	brief := f.began > 0 && rows <= alternatesWithin*float64(l.cfg.Neighbours)
	if f.began > 0 && l.counts.Returns >= alternatesOften*l.counts.Alarms {
		brief = rows <= alternatesLong*float64(l.cfg.Neighbours)
	}
	alternates = f.brief && brief
	f.began, f.brief = l.counts.Minibatches, brief
	return alternates
}

// learnAlternating learns the current regime, which has returned, and the one that was left for it together.
func (l *Learner) learnAlternating(s Step) (Step, error) {
	last := len(l.former.regimes) - 1
	if last < 0 { // it could not be kept
		return s, nil
	}
	other := &l.former.regimes[last]
	share := float64(other.since) / float64(other.since+l.counts.Since)
	share = min(max(share, alternatesLeast), 1-alternatesLeast)
	rows := min(float64(l.cfg.Neighbours), float64(l.pool.len())/(1-share), float64(other.pool.len())/share)
	mine := new(batch).sample(l.pool.batch(), int((1-share)*rows), 0, l.cfg.Dim)
	its := new(batch).sample(other.pool.batch(), int(share*rows), 0, l.cfg.Dim)
	s, done, err := l.learnBoth(mine, its, share, s, func() bool { return l.knows(mine) && l.knows(its) })
	if done {
		l.counts.Returns-- // the alarm is another one
		l.former.regimes = l.former.regimes[:last]
	}
	return s, err
}
