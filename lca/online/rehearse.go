package online

import (
	"context"
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

const (
	replayGain  = 1e-4 // a replay ends when a step gains less than this, in nats per row,
	replaySteps = 100  // or after this number of steps,
	// or after this number of pairs of rows: ten steps with N = 3000, which cost as much as 30000 rows.
	replayPairs = 90e6
	// With fewer rows per column than this, EM to convergence fits the rows and not the stream. Candidates are fitted to as many (contest.go).
	rowsPerColumn = 20
)

// replayPool runs EM over the pool, each of its rows against all others, while the stream is young.
//
// EM is slow from C_L = C_G: where structure is much finer than the whole, as two thin rings are,
// it takes dozens of steps before λ shows any of it. A stream makes few. With the growing n a minibatch is
// 4B/rows of a step, which adds up to 4 ln(rows/200) steps: 18 after 20000 rows, and later one per n/(1−γ) rows.
// Reading the pool again costs no row of the stream: rings that took 100000 rows are found in 1000. The scores of
// a young stream, and a gate in kernel widths, are right from the first model on.
//
// It happens at the end of the warm-up (fitFirst) and each time the number of rows learnt has doubled since, until the
// pool is full: by the count of rows, and not by time. C_L is then what lca.Fit gives for the pool, less noisy than a
// running average over rows/8 rows. With fewer than 20 rows per column the converged metric is that of those rows
// alone, and worse on the next rows than the steps of equation 8, except with a full pool, which will not grow.
// With Config.Plain, or γ = 0, the caller counts the steps and nothing is replayed.
func (l *rowGate) replayPool(before uint64, s *Step) error {
	if !l.worthReplaying(l.pool.Len()) || !l.rowsDoubled(before) {
		return nil
	}
	if _, err := l.convergeOnPool(context.Background(), l.pool.Batch(), s); err != nil {
		return err
	}
	l.setGate(l.pool.Batch())
	l.renewEstimator()
	return nil
}

// worthReplaying reports whether that number of rows is worth it.
func (l *model) worthReplaying(rows int) bool {
	if l.cfg.Plain || l.cfg.Gamma == 0 {
		return false
	}
	return !l.fewOfWide() && rows >= min(l.cfg.Neighbours, rowsPerColumn*len(l.metric.Active))
}

// rowsDoubled says whether the rows learnt have just come to the warm-up's number times a power of two,
// of which the last is the first that finds the pool full.
func (l *model) rowsDoubled(before uint64) bool {
	first := uint64(l.cfg.warmupRows())
	for at := first; at < 2*max(uint64(l.cfg.Neighbours), first); at *= 2 {
		if before < at && at <= l.since {
			return true
		}
	}
	return false
}

// convergeOnPool runs EM for the given rows against the pool and returns how many were used. The split is found at
// each step: to move between the parts is what EM is slow at. It ends when ctx does.
func (l *model) convergeOnPool(ctx context.Context, b pool.Batch, s *Step) (used int, err error) {
	last := math.Inf(1)
	for range min(replaySteps, max(1, replayPairs/(b.Len()*l.pool.Len()))) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		l.estimator.load(l.pool, l.metric, l.work)
		l.estimator.project(b.X, l.moments.mean)
		ex := l.exclusion(b)
		if l.gatesByDistance() { // a gate narrower than far would shut out much of the data while C_L comes down
			ex.Gate = math.Max(l.cfg.OutlierGate, kernel.FarLimit(l.metric.parzen))
		}
		m := l.estimator.update(ex)
		var now Step
		if l.evaluate(m, b.X, &now); m.Rows == 0 || !(last-now.NLL > replayGain) {
			break
		}
		used, last = m.Rows+m.Atoms, now.NLL
		l.metric.average(m, 0, l.work)
		if _, err := l.updateMetric(1); err != nil {
			return 0, err
		}
		l.split = true
		s.Replayed++
	}
	s.Parzen, s.Gaussian = l.metric.parzen, len(l.metric.Active)-l.metric.parzen
	s.Ridged = s.Ridged || l.metric.ridged
	return used, nil
}
