package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// A minibatch that differs from the recent ones is compared with the pool's rows, each of them against the others, before it
// counts as anomalous. There are few recent minibatches, and their figures are far from normal where few rows decide them:
// rows of heavy tails, or those in which a column does not have the value that it nearly always has. The number of columns
// counts too, because each is watched. Only suspected minibatches pay for the comparison.
//
// Rows of a machine that runs and rests come in stretches, in which they are alike. So the comparison is also with those rows of the pool that
// came soon after one such as these: a stretch of a kind that the pool holds is not rare. Where rows are independent, these are as all others.

// rare is the logarithm of the probability that a normal deviate is beyond driftAlarm.
const rare = -15.06

const (
	stretchMinibatches = 2  // a row of the pool came soon after another one if fewer minibatches than this were between them
	stretchRows        = 20 // least rows of the pool that make a kind
	stretchSurely      = 3  // standard errors by which their mean is above that of all
)

// stretch returns the values of those rows of the pool that came soon after one that has a value of at least least. It returns nil if there are few, or
// if their mean is not surely above that of all, as where rows are independent.
func (l *Learner) stretch(values []float64, places []place, least float64) (such []float64) {
	order, soon := inOrder(places), uint64(stretchMinibatches*l.cfg.Minibatch)
	for i, row := range order[min(1, len(order)):] {
		if before := order[i]; values[before] >= least && places[row].near(places[before], soon) {
			such = append(such, values[row])
		}
	}
	var all level
	for _, v := range values {
		all.among(v, math.Inf(1))
	}
	mean, _ := meanAtMost(such, math.Inf(1))
	if len(such) < stretchRows || !(mean-all.mean > stretchSurely*math.Sqrt(all.variance/float64(len(such)))) {
		return nil
	}
	return such
}

// rarelySo reports whether the chance of as high a mean of that number of rows is below that logarithm, both by all of the pool's rows and by those of
// a stretch that is like that.
func (l *Learner) rarelySo(values []float64, places []place, mean, rows, logarithm float64) bool {
	if chance(values, mean, rows) >= logarithm {
		return false
	}
	such := l.stretch(values, places, mean)
	return such == nil || chance(such, mean, rows) < logarithm
}

// ofPool runs the E-step of some of the pool's rows, each against the others, for f. That of the minibatch stays in the estimator.
func (l *Learner) ofPool(f func(b batch, m *kernel.Moments)) {
	was := l.estimator
	l.estimator = newEstimator(l.cfg)
	b := new(batch).sample(l.pool.batch(), gateRows, 0, l.cfg.Dim)
	l.estimator.load(l.pool, l.metric, l.work)
	l.estimator.project(b.x, l.moments.mean)
	f(b, l.estimator.update(l.exclusion(b)))
	l.estimator = was
}

// rarelyUnlikely reports whether as many rows of the pool hardly ever have a mean NLL as high as the rows of the last E-step. The
// pool's have been learnt and are more likely than others, so that only their differences count. One row in n + 1 is less
// likely than the least likely of n, and counts as that: it may be any number of nats away, and says no more than that it is.
func (l *Learner) rarelyUnlikely(m *kernel.Moments) bool {
	now := slices.Clone(l.densities(m))
	var pool []float64
	var places []place
	l.ofPool(func(b batch, m *kernel.Moments) { pool, places = slices.Clone(l.densities(m)), b.places })
	usual, most := meanAtMost(pool, math.Inf(1))
	nll, _ := meanAtMost(now, most)
	such := l.stretch(pool, places, nll)
	for i := range now {
		now[i] += usual - l.drift.nll.mean
	}
	moved, _ := meanAtMost(now, most)
	rows := float64(m.Rows + m.Atoms)
	unlikely := func(values []float64, nll float64) bool {
		values = append(values, most)
		allSuch := 0.9 * rows * math.Log(2/float64(len(values))) // nothing rarer can be seen in few rows
		return chance(values, nll, rows) < max(rare, allSuch)
	}
	return unlikely(pool, moved) && (such == nil || unlikely(such, nll))
}

// meanAtMost returns the mean of the values, none of which counts as more than most, and the greatest of them. NaNs do not count.
func meanAtMost(values []float64, most float64) (mean, greatest float64) {
	n := 0.0
	greatest = math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
			mean += float64((min(v, most) - mean) / n)
			greatest = max(greatest, v)
		}
	}
	return mean, greatest
}

// rarelyQuiet reports whether that number of rows of the pool hardly ever has so low a mean square in some column.
func (l *Learner) rarelyQuiet(column int, square float64, rows int) bool {
	values := make([]float64, l.pool.len())
	for i := range values {
		v := l.pool.row(i)[column] - l.moments.mean[column]
		values[i] = -float64(v * v)
	}
	return l.rarelySo(values, l.pool.places, -square, float64(rows), rare-math.Log(float64(len(l.metric.Active))))
}

// rarelyQuietOutside reports the same of the mean square of a Gaussian direction.
func (l *Learner) rarelyQuietOutside(square float64, rows int) bool {
	var values []float64
	var places []place
	l.ofPool(func(b batch, _ *kernel.Moments) { values, places = slices.Clone(l.estimator.halfSquares()), b.places })
	for i := range values {
		values[i] *= -2 / float64(len(l.metric.Active)-l.metric.parzen)
	}
	return l.rarelySo(values, places, -square, float64(rows), rare)
}

// farOfPool returns the share of the pool's rows that are far from all others, or of those in a stretch of such rows. It is more than a tenth where
// many columns have one value nearly always: the kernels are as narrow as that.
func (l *Learner) farOfPool() (share float64) {
	l.ofPool(func(b batch, m *kernel.Moments) {
		share = float64(l.countFar(b, m)) / float64(b.len())
		far := make([]float64, b.len())
		for i, beyond := range l.beyond {
			if beyond {
				far[i] = 1
			}
		}
		if such := l.stretch(far, b.places, 1); such != nil {
			usual, _ := meanAtMost(such, 1)
			share = max(share, usual)
		}
	})
	return share
}

// chance returns a bound of the logarithm of the probability that the mean of that number of independent draws from values
// is at least mean (Chernoff):
//
//	ln P ≤ rows · min_θ ln (1/n) Σ_i exp θ(v_i − mean)
//
// It needs no law of the values. NaNs do not count.
func chance(values []float64, mean, rows float64) float64 {
	mean -= 1e-9 * math.Abs(mean) // that of equal values is rounded, and may be beyond all of them
	differences, sum, upper := make([]float64, 0, len(values)), 0.0, math.Inf(-1)
	for _, v := range values {
		if d := v - mean; !math.IsNaN(d) {
			differences, sum, upper = append(differences, d), sum+d, max(upper, d)
		}
	}
	switch {
	case !(sum < 0):
		return 0
	case upper < 0:
		return math.Inf(-1)
	}
	const steps = 30
	lo, hi := 0.0, 1/max(upper, -sum/float64(len(differences)))
	for range steps {
		if _, slope := tilted(differences, upper, hi); slope >= 0 {
			break
		}
		lo, hi = hi, 2*hi
	}
	for range steps {
		middle := 0.5 * (lo + hi)
		if _, slope := tilted(differences, upper, middle); slope < 0 {
			lo = middle
		} else {
			hi = middle
		}
	}
	logarithm, _ := tilted(differences, upper, hi)
	return rows * min(logarithm, 0)
}

// tilted returns ln (1/n) Σ_i exp θ v_i, a convex function of θ, and a number with the sign of its slope. No value is above upper.
func tilted(values []float64, upper, theta float64) (logarithm, slope float64) {
	sum := 0.0
	for _, v := range values {
		e := math.Exp(theta * (v - upper))
		sum += e
		slope += float64(v * e)
	}
	return math.Log(sum/float64(len(values))) + float64(theta*upper), slope
}
