package online

const wakesVariance = 100 // times its variance so far that each column's is, of a machine that begins to run

// A stream may begin while the machine is at rest, and the first rows say nothing about how it runs: they are the noise of sensors. What comes then
// differs by tens of standard deviations in every column. Such a change need not last longer than a warm-up. Only the first rows are so little
// to go by: later, all sensors that are so loud at once are a fault until the change has lasted.

// wakes reports whether the rows in quarantine are those of a machine that had been at rest until now.
func (l *Learner) wakes() bool {
	w, d := &l.warm, l.cfg.Dim
	if l.counts.Alarms > 0 || l.counts.Since >= uint64(l.cfg.Neighbours) || w.len() < l.cfg.warmupRows() {
		return false
	}
	now := newRunningMoments(l.cfg.momentsMemory(), d)
	now.start(w.x, l.work)
	for k := range d {
		if !(now.cov[k*d+k] > wakesVariance*l.moments.cov[k*d+k]) {
			return false
		}
	}
	return true
}
