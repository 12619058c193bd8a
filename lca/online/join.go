package online

// join learns the rows in quarantine in addition to all rows before them. A finite set may be sorted: what begins in the
// midst of it is no new regime that replaces the former one, but another part of the set. A fault that is over before
// it is believed is left out of a finite set as it is of a stream.
//
// As after a restart, EM runs from C_G on the pool, with all directions Parzen, because C_L as it was knows only
// the former part.
func (l *Learner) join(s Step) (Step, error) {
	b, compared := l.warm, l.choice.began > 0
	l.warm, l.lockout = batch{}, lockout{}
	l.choice.drop() // its candidates know only the former part
	l.moments.learn(b.x, l.work)
	s.Entered, s.Joined, s.Learnt = l.offerToPool(b, nil), b.len(), b.len()
	l.renewEstimator() // it knows the former rows of the pool
	if err := l.startFromGlobal(); err != nil {
		return Step{}, err
	}
	if _, err := l.convergeOnPool(l.pool.batch(), &s); err != nil {
		return Step{}, err
	}
	l.drift = drift{}
	l.insideGate(new(batch).sample(l.pool.batch(), gateRows, int(l.gate.turn), l.cfg.Dim))
	l.renewEstimator()
	l.updateCounters(&s)
	if compared {
		l.startChoice()
	}
	return s, l.aligned.advance(l)
}

// NextPass says that the rows that follow are those of the pass before, in the same order: places in time begin again, and
// an unfinished change is given up, because the first rows do not follow the last ones. It returns how many rows that were.
func (l *Learner) NextPass() (released int) {
	if l.metric == nil {
		l.warm = batch{} // they come again
	}
	released = l.release(l.Quarantined())
	l.clocks, l.gap.tracks, l.recurring = nil, nil, recurring{} // the same rows do not recur
	return released
}

// Quarantined returns how many rows are set aside until the change that they show is over, or lasts long enough to be
// believed.
func (l *Learner) Quarantined() int {
	if l.metric == nil { // the warm-up's
		return 0
	}
	return l.warm.len()
}
