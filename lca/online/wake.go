package online

import "math"

const (
	wakesVariance = 100 // times its variance so far that each column's is, of a machine that begins to run
	wakesColumns  = 2   // at least: hum on one alone is as slow as a machine
	wakesLikeness = 0.4 // least correlation, of two columns or of adjacent rows, or shift in standard deviations, that noise has not
)

// A stream may begin while the machine is at rest, and the first rows say nothing about how it runs: they are the noise of sensors. What comes then
// differs by tens of standard deviations in every column. Such a change need not last longer than a warm-up. Only the first rows are so little
// to go by: later, all sensors that are so loud at once are a fault until the change has lasted. So are they where they are nothing but noise, as of a
// cable that is loose: how a machine runs shows in columns that move together, in slow ones, or in other means.

// wakes reports whether the rows in quarantine are those of a machine that had been at rest until now. Columns that were constant tell nothing.
func (l *Learner) wakes() bool {
	w, d := &l.warm, l.cfg.Dim
	if len(l.metric.Active) < wakesColumns || l.counts.Alarms > 0 || l.counts.Since >= uint64(l.cfg.Neighbours) || w.len() < l.cfg.warmupRows() {
		return false
	}
	now := newRunningMoments(l.cfg.momentsMemory(), d)
	now.start(w.x, l.work)
	for _, k := range l.metric.Active {
		if !(now.cov[k*d+k] > wakesVariance*l.moments.cov[k*d+k]) {
			return false
		}
	}
	return l.moreThanNoise(w.x, now)
}

// moreThanNoise reports whether rows with these moments are correlated, with one another or with the rows before them, or have another mean.
func (l *Learner) moreThanNoise(x []float64, now *runningMoments) bool {
	d, rows := l.cfg.Dim, float64(len(x)/l.cfg.Dim)
	for i, k := range l.metric.Active {
		variance, next := now.cov[k*d+k], 0.0
		for at := k + d; at < len(x); at += d {
			next += (x[at-d] - now.mean[k]) * (x[at] - now.mean[k]) / rows
		}
		if math.Abs(next) > wakesLikeness*variance || math.Abs(now.mean[k]-l.moments.mean[k]) > wakesLikeness*math.Sqrt(variance) {
			return true
		}
		for _, j := range l.metric.Active[:i] {
			// C_G is kept as a lower triangle.
			if math.Abs(now.cov[k*d+j]) > wakesLikeness*math.Sqrt(variance*now.cov[j*d+j]) {
				return true
			}
		}
	}
	return false
}
