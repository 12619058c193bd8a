package online

import "github.com/lca-stream/lca-stream/lca/online/internal/pool"

// A set may end before it has as many rows as a stream warms up on, or as many as EM needs: 3000 where rows are alike for long, and twenty per column. Waiting
// does not help then. So its model is of the rows that there are. Of few per column it is a single Gaussian with
//
//	(1−a) C_G + a diag(C_G)
//
// as wide rows have it (wide.go): directions in which they hardly vary may be chance. Rows that are near in time count as independent ones. Were they fewer, nearly
// all series of some hundred rows would have a = 1.

// spareRows is the least number of rows that a set has beyond one for each column that varies.
const spareRows = 2

// endWarmup fits the rows of a set that has ended in its warm-up, unless there are too few to tell anything. few says that there is nothing to choose by them.
func (l *warmup) endWarmup() (few bool, err error) {
	d, rows := l.cfg.Dim, l.warm
	if l.metric != nil { // they have waited for the first minibatch
		rows = l.pool.Batch()
	}
	if rows.Len() == 0 {
		return true, nil
	}
	if kept := screen(rows.X, d); len(kept) < rows.Len() {
		l.counts.Gated += uint64(rows.Len() - len(kept))
		rows = new(pool.Batch).Pick(rows, kept, d)
	}
	l.moments.start(rows.X, l.work)
	active := len(l.moments.columnScale(l.cfg.NuUnit).Active)
	if l.wanted = active + spareRows; active == 0 || rows.Len() < l.wanted {
		return true, nil
	}
	l.wanted, l.warm = max(l.warmupWanted(), rows.Len()+1), pool.Batch{} // a stream that has warmed up waits for its first minibatch
	if rows.Len() >= rowsPerColumn*active {
		if _, err := l.initialise(rows, Step{}); err != nil || l.split {
			return false, err
		}
		rows = l.pool.Batch()
	}
	return true, l.fitFew(rows)
}

// fitFew makes a single Gaussian of few rows.
func (l *warmup) fitFew(b pool.Batch) error {
	if _, err := l.fitFirst(b, new(Step)); err != nil {
		return err
	}
	if !l.cfg.wide() { // which shrink at each use
		shrink(l.moments.full(), l.cfg.Dim, l.towardsDiagonal(float64(b.Len())))
	}
	if err := l.begin(candidate{recipe: l.settings, cl: l.moments.full()}); err != nil {
		return err
	}
	l.insideGate(b)
	_, err := l.begun(Step{Learnt: b.Len()}, b.Len(), 0)
	return err
}
