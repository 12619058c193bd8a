package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/watch"
)

// A minibatch that differs from the recent ones is compared with the pool's rows, each of them against the others, before it
// counts as anomalous. There are few recent minibatches, and their figures are far from normal where few rows decide them:
// rows of heavy tails, or those in which a column does not have the value that it nearly always has. The number of columns
// counts too, because each is watched. Only suspected minibatches pay for the comparison.
//
// Rows of a machine that runs and rests come in stretches, in which they are alike. So the comparison is also with those rows of the pool that
// came soon after one such as these (stretch): a stretch of a kind that the pool holds is not rare.

// rare is the logarithm of the probability that a normal deviate is beyond driftAlarm.
var rare = math.Log(0.5 * math.Erfc(driftAlarm/math.Sqrt2))

// soon is the distance in rows below which a row of the pool came soon after another one.
func (c Config) soon() uint64 { return watch.StretchMinibatches * uint64(c.Minibatch) }

// ofPool runs the E-step of some of the pool's rows, each against the others, for f. That of the minibatch stays in the estimator.
func (l *changeWatch) ofPool(f func(b pool.Batch, m *kernel.Moments, scores []float64)) {
	was := l.estimator
	defer func() { l.estimator = was }()
	l.estimator = newEstimator(l.cfg)
	b := new(pool.Batch).Sample(l.pool.Batch(), gateRows, 0, l.cfg.Dim)
	m, scores := l.sums(b)
	f(b, m, scores)
}

// rarelyUnlikely reports whether as many rows of the pool hardly ever have a mean NLL as high as the rows of the last E-step. The
// pool's have been learnt and are more likely than others, so that only their differences count. One row in n + 1 is less
// likely than the least likely of n, and counts as that: it may be any number of nats away, and says no more than that it is.
func (l *changeWatch) rarelyUnlikely(m *kernel.Moments) bool {
	now := slices.Clone(l.densities(m))
	var known []float64
	var places []pool.Place
	l.ofPool(func(b pool.Batch, _ *kernel.Moments, scores []float64) {
		known, places = slices.Clone(scores), b.Places
	})
	usual, most := watch.MeanAtMost(known, math.Inf(1))
	nll, _ := watch.MeanAtMost(now, most)
	such := watch.Stretch(known, places, nll, l.cfg.soon())
	for i := range now {
		now[i] += usual - l.drift.nll.Mean
	}
	moved, _ := watch.MeanAtMost(now, most)
	rows := float64(m.Rows + m.Atoms)
	unlikely := func(values []float64, nll float64) bool {
		values = append(values, most)
		allSuch := 0.9 * rows * math.Log(2/float64(len(values))) // nothing rarer can be seen in few rows
		return watch.Chance(values, nll, rows) < max(rare, allSuch)
	}
	return unlikely(known, moved) && (such == nil || unlikely(such, nll))
}

// rarelyQuiet reports whether that number of rows of the pool hardly ever has so low a mean square in some column.
func (l *changeWatch) rarelyQuiet(column int, square float64, rows int) bool {
	values := make([]float64, l.pool.Len())
	for i := range values {
		v := l.pool.Row(i)[column] - l.moments.mean[column]
		values[i] = -float64(v * v)
	}
	return watch.Rarely(values, l.pool.Places, l.cfg.soon(), -square, float64(rows), rare-math.Log(float64(len(l.metric.Active))))
}

// farOfPool returns the share of the pool's rows that are far from all others, or of those in a stretch of such rows. It is more than a tenth where
// many columns have one value nearly always: the kernels are as narrow as that.
func (l *changeWatch) farOfPool() (share float64) {
	l.ofPool(func(b pool.Batch, m *kernel.Moments, _ []float64) {
		share = float64(l.countFar(b, m)) / float64(b.Len())
		far := make([]float64, b.Len())
		for i, beyond := range l.beyond {
			if beyond {
				far[i] = 1
			}
		}
		if such := watch.Stretch(far, b.Places, 1, l.cfg.soon()); such != nil {
			usual, _ := watch.MeanAtMost(such, 1)
			share = max(share, usual)
		}
	})
	return share
}
