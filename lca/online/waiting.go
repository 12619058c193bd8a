package online

import "github.com/lca-stream/lca-stream/lca"

// Waiting is how far the warm-up is.
type Waiting struct {
	Rows     int    // rows collected
	Wanted   int    // rows that the first metric is fitted to
	Gap      uint64 // rows that count as one, because of which Wanted is more than Config.WarmupRows; 0 = it is not
	Constant bool   // no column varies among the collected rows, so that the newest of them are kept until one does
}

// Waiting returns what Model waits for as long as it returns ErrWarmup, and false after that.
func (l *Learner) Waiting() (w Waiting, waits bool) {
	switch {
	case l.metric != nil && l.counts.Minibatches > 0:
		return Waiting{}, false
	case l.metric != nil: // the next minibatch is the first update
		n := l.pool.len()
		return Waiting{Rows: n, Wanted: n + 1}, true
	}
	w = Waiting{Rows: l.warm.len(), Wanted: l.warmupWanted()}
	if l.wanted > 0 { // the set has ended
		w.Wanted = l.wanted
	} else if w.Wanted > l.cfg.warmupRows() {
		w.Gap = l.gap.slowest()
	}
	w.Constant = w.Rows >= w.Wanted // warmUp has tried
	return w, true
}

// warmupWanted returns how many rows the warm-up collects: more than the configuration says in a stream in which
// several rows in a row are hardly more than one, in any column.
func (l *Learner) warmupWanted() int {
	want := l.cfg.warmupRows()
	if l.cfg.WarmupRows == lca.Auto {
		want = stretched(want, l.gap.slowest(), l.cfg.Neighbours)
	}
	return want
}
