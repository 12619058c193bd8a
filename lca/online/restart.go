package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// A minibatch is anomalous if more than a tenth of its rows are far from all neighbours (gate.go), or if its NLL is far
// above that of recent ones (drift.go), unless the pool's own rows are like that. Anomalous minibatches are not learnt but kept in quarantine, and the metric
// stays. Each normal minibatch is learnt and outweighs an anomalous one: as many of the oldest rows in quarantine are
// dropped. So a burst has no effect, and neither has a fault that comes and goes.
//
// When Config.driftRows are in quarantine, the change is believed: this is the alarm. The learner then restarts from
// those rows as a new one would start. They give the scales, μ, C_G, the pool and, with all directions Parzen, the
// first metric. To go on from the old state instead costs more than it saves. The old neighbours are all far from the
// new rows, so λ says nothing, C_L becomes wider than C_G, and LCA-Gauss gives up directions that it never takes
// back; and a C_G of both periods together describes neither.
//
// With Drift off only far rows make a minibatch anomalous, or columns that are stuck or quiet, and it is not kept; of far rows, a gate in kernel
// widths decides row by row. Such a learner never restarts, and forgets nothing that it has known (knowngood.go).
//
// A finite set has no order. So a stretch of it need not be as likely as those before it: only far rows make a minibatch
// anomalous. A change that is believed is another part of the set, and joins the rest (learner.go).

// isAnomalous says whether a minibatch differs from the recent ones; it sets s.Z.
func (l *Learner) isAnomalous(b pool.Batch, m *kernel.Moments, far, rows int, s *Step) bool {
	switch {
	case s.Opened:
		return false
	case l.watchesColumns():
		quiet := l.drift.quiet.measure(l, b, m)
		stuck, judged := l.isStuck(b, 0)
		quiet = quiet && !judged // equal rows vary in nothing, which isStuck judges
		if l.cfg.Drift {
			s.Z = l.drift.nll.z(s.NLL)
		}
		if quiet || stuck || s.Z > driftAlarm && l.rarelyUnlikely(m) {
			return true
		}
	}
	return (l.cfg.Drift || l.cfg.OutlierGate == lca.Auto) && l.manyFar(far, rows)
}

// watchesColumns reports whether columns that are stuck or quiet make a minibatch anomalous. A finite set has no order, and with Drift off and no gate
// everything is learnt.
func (l *Learner) watchesColumns() bool { return !l.cfg.Finite && (l.cfg.Drift || l.keepsKnown()) }

// manyFar says whether that number of far rows is too large for the outliers of the stream. Where they are usual, a tenth is no more
// than there are now and then. By kernel distance more may be far from the first minibatch on.
func (l *Learner) manyFar(far, rows int) bool {
	if l.usesScores() {
		return float64(far) > (manyRows+2*l.drift.far.mean)*float64(rows)
	}
	if !tooManyFar(far, rows) {
		return false
	}
	return l.cfg.OutlierGate != lca.Auto || float64(far) > (manyRows+2*l.farOfPool())*float64(rows)
}

// acceptNormal records the NLL of a minibatch that is about to be learnt, and drops as many rows from quarantine. Rows
// to which the gate opens may be any number of nats away, and those before them are not all that there is. What is usual
// shows in the minibatches that follow: the level of both would hide a change until it has forgotten them.
func (l *Learner) acceptNormal(far, rows int, s *Step) {
	l.drift.far.observe(float64(far) / float64(max(rows, 1)))
	if s.Opened {
		l.drift.nll = level{}
	} else {
		l.drift.nll.observe(s.NLL)
		if l.watchesColumns() {
			l.drift.quiet.observe(l.metric.Active)
		}
	}
	s.Released += l.release(min(rows, l.warm.Len()))
}

// release drops the oldest rows in quarantine, which are never learnt.
func (l *Learner) release(rows int) int {
	l.warm.Forget(rows, l.cfg.Dim)
	l.counts.Gated += uint64(rows)
	return rows
}

// patience returns how many rows in quarantine make a restart.
func (l *Learner) patience() int {
	want := l.cfg.driftRows()
	if l.lockout.tripped {
		want = l.cfg.warmupRows()
	}
	if l.cfg.DriftRows == lca.Auto && l.cfg.WarmupRows == lca.Auto {
		want = stretched(want, l.gap.rows, l.cfg.Neighbours)
	}
	return want
}

// quarantine keeps an anomalous minibatch, and restarts when there are enough rows.
func (l *Learner) quarantine(b pool.Batch, s Step) (Step, error) {
	w, d := &l.warm, l.cfg.Dim
	if l.cfg.Drift {
		w.Append(b)
		s.Quarantined = b.Len()
	} else {
		s.Gated, s.Released = s.Gated+b.Len(), b.Len()
	}
	want := l.patience()
	if w.Len() < want {
		l.updateCounters(&s)
		return s, nil
	}
	if l.cfg.Finite {
		return l.join(s)
	}
	kept := screen(w.X, d)
	first := new(pool.Batch).Pick(*w, kept, d)
	if !l.moves(w.X) { // keep the newest rows
		if w.Len()-b.Len() < want { // say so, once
			s.Alarm, s.Still, l.lockout.lasting = AlarmRefused, true, refusedRows
		}
		w.Forget(w.Len()-want, d)
		l.updateCounters(&s)
		return s, nil
	}
	if s.Alarm = AlarmDrift; l.lockout.tripped {
		s.Alarm = AlarmLockout
	}
	s.Gated += w.Len() - len(kept)
	l.updateCounters(&s)
	w.Forget(w.Len(), d) // all of them are counted
	return l.restart(first, s)
}

// moves reports whether any column has moved in the rows of quarantine. Those of the first minibatch do not count: all may have stopped in the midst of it.
func (l *Learner) moves(x []float64) bool {
	if first := l.cfg.Minibatch * l.cfg.Dim; len(x) > first {
		x = x[first:]
	}
	moments := newRunningMoments(l.cfg.momentsMemory(), l.cfg.Dim)
	moments.start(x, l.work)
	return len(moments.columnScale(l.cfg.NuUnit).Active) > 0
}

// restart leaves the current regime, and begins with the given rows.
func (l *Learner) restart(first pool.Batch, s Step) (Step, error) {
	was := former{l.regime, l.counts.Since}
	l.leave()
	l.counts.Since = 0
	l.setRegime(regime{settings: l.asked.resolved().recipe(), aligned: was.aligned, cl: make([]float64, l.cfg.Dim*l.cfg.Dim), gap: newTimeGap(l.cfg)})
	l.gap.learn(first, l.cfg.Dim)
	l.gap.revise()
	b, used, err := l.fitInside(first, &s)
	if err != nil {
		return Step{}, err
	}
	before := s.Gated
	s.Gated, s.Learnt = before+first.Len()-b.Len(), used
	l.swap(&was)
	l.remember()
	l.swap(&was)
	if err := l.chooseBeginning(b.Len(), &s); err != nil {
		return Step{}, err
	}
	return l.begun(s, b.Len(), s.Gated-before)
}

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
func (l *Learner) stretch(values []float64, places []pool.Place, least float64) (such []float64) {
	order, soon := pool.InOrder(places), uint64(stretchMinibatches*l.cfg.Minibatch)
	for i, row := range order[min(1, len(order)):] {
		if before := order[i]; values[before] >= least && places[row].Near(places[before], soon) {
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
func (l *Learner) rarelySo(values []float64, places []pool.Place, mean, rows, logarithm float64) bool {
	if chance(values, mean, rows) >= logarithm {
		return false
	}
	such := l.stretch(values, places, mean)
	return such == nil || chance(such, mean, rows) < logarithm
}

// ofPool runs the E-step of some of the pool's rows, each against the others, for f. That of the minibatch stays in the estimator.
func (l *Learner) ofPool(f func(b pool.Batch, m *kernel.Moments)) {
	was := l.estimator
	l.estimator = newEstimator(l.cfg)
	b := new(pool.Batch).Sample(l.pool.Batch(), gateRows, 0, l.cfg.Dim)
	l.estimator.load(l.pool, l.metric, l.work)
	l.estimator.project(b.X, l.moments.mean)
	f(b, l.estimator.update(l.exclusion(b)))
	l.estimator = was
}

// rarelyUnlikely reports whether as many rows of the pool hardly ever have a mean NLL as high as the rows of the last E-step. The
// pool's have been learnt and are more likely than others, so that only their differences count. One row in n + 1 is less
// likely than the least likely of n, and counts as that: it may be any number of nats away, and says no more than that it is.
func (l *Learner) rarelyUnlikely(m *kernel.Moments) bool {
	now := slices.Clone(l.densities(m))
	var known []float64
	var places []pool.Place
	l.ofPool(func(b pool.Batch, m *kernel.Moments) { known, places = slices.Clone(l.densities(m)), b.Places })
	usual, most := meanAtMost(known, math.Inf(1))
	nll, _ := meanAtMost(now, most)
	such := l.stretch(known, places, nll)
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
	return unlikely(known, moved) && (such == nil || unlikely(such, nll))
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
	values := make([]float64, l.pool.Len())
	for i := range values {
		v := l.pool.Row(i)[column] - l.moments.mean[column]
		values[i] = -float64(v * v)
	}
	return l.rarelySo(values, l.pool.Places, -square, float64(rows), rare-math.Log(float64(len(l.metric.Active))))
}

// rarelyQuietOutside reports the same of the mean square of a Gaussian direction.
func (l *Learner) rarelyQuietOutside(square float64, rows int) bool {
	var values []float64
	var places []pool.Place
	l.ofPool(func(b pool.Batch, _ *kernel.Moments) {
		values, places = slices.Clone(l.estimator.halfSquares()), b.Places
	})
	for i := range values {
		values[i] *= -2 / float64(len(l.metric.Active)-l.metric.parzen)
	}
	return l.rarelySo(values, places, -square, float64(rows), rare)
}

// farOfPool returns the share of the pool's rows that are far from all others, or of those in a stretch of such rows. It is more than a tenth where
// many columns have one value nearly always: the kernels are as narrow as that.
func (l *Learner) farOfPool() (share float64) {
	l.ofPool(func(b pool.Batch, m *kernel.Moments) {
		share = float64(l.countFar(b, m)) / float64(b.Len())
		far := make([]float64, b.Len())
		for i, beyond := range l.beyond {
			if beyond {
				far[i] = 1
			}
		}
		if such := l.stretch(far, b.Places, 1); such != nil {
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
