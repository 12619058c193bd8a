package online

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/watch"
	"github.com/lca-stream/lca-stream/lca/recent"
)

// ErrWarmup is returned by Model before the first update: there is nothing to publish yet.
var ErrWarmup = errors.New("lca: warming up, no metric has been learnt yet")

// Learner learns LCA or LCA-Gauss from a stream of minibatches (section 5). What it has learnt
// depends on the rows, their identities and their order alone: not on a clock, on when a model is
// asked for, on GOMAXPROCS or on where the stream was interrupted and resumed. It is not safe for
// concurrent use; the models it returns are.
//
// One call of Learn is one stochastic EM step:
//
//	E   λ_ij of the minibatch's rows against the pool (estep.go)
//	M   C_L ← γ^(B/n) C_L + (1−γ^(B/n)) Ĉ_L        (eq. 8; config.go has n)
//	    μ, C_G with the pool's memory (runningmoments.go), then B_G and B_L (model.go)
//
// after which some of the rows replace neighbours (package pool). C_L is kept without ν. What decides which rows are learnt, and under which metric, are the
// layers below it (doc.go).
type Learner struct {
	heldSeries
	clocks  pool.Clocks // rows seen of each partition
	running running
}

// NewLearner returns a learner that has seen nothing.
func NewLearner(c Config) (*Learner, error) {
	m, err := newModel(c)
	if err != nil {
		return nil, err
	}
	l := new(Learner)
	if l.model = m; l.cfg.Recent && c.Dim <= recent.MostColumns {
		l.recent.learner = recent.NewLearner(c.Dim)
	}
	return l, nil
}

// Learn learns a minibatch. ids are the identities of its rows, such as a hash of topic, partition,
// offset and row: a row is never its own neighbour, even if it is delivered again. nil ids mean that
// no row comes twice. partitions say which sequence each row continues: rows that are near in time in the
// same one are no neighbours (package timegap). nil partitions mean that all rows are of one sequence.
//
// A row with a NaN or an infinity is an error that leaves the state untouched. x is not kept.
func (l *Learner) Learn(x *mat.Dense, ids []uint64, partitions []int32) (Step, error) {
	return l.LearnSeries(x, ids, partitions, nil, nil)
}

// LearnSeries is Learn, where the identities of series say which rows are one after the other, for what scores the last rows of a series (package recent). nil:
// the rows of a partition are a series, whose identity is the number of the partition. With series, a row may have a NaN for a null: it moves its series
// on, and besides that it is as if it were not there. stamps are the times of the rows, in ms since the epoch, by which it is told how long a change has
// lasted (holds.go); nil or 0: there is none.
func (l *Learner) LearnSeries(x *mat.Dense, ids []uint64, partitions []int32, series []uint64, stamps []int64) (Step, error) {
	rows, err := l.check(l.cfg.Dim, x, ids, partitions, series)
	if err != nil {
		return Step{}, err
	}
	s := Step{NLL: math.NaN(), GaussianNLL: math.NaN(), Effective: math.NaN(), Discount: 1}
	b := l.sanitise(rows, ids, partitions, &s)
	l.counts.Rows += uint64(s.Rows)
	n := len(rows) / l.cfg.Dim
	series = l.recent.seriesOf(series, partitions, n)
	l.recent.learn(rows, series, l.cfg.Dim)
	var kept []int
	if b.Len() < n {
		kept = l.kept
	}
	b = l.holdSeries(b, kept, series, stamps, &s)
	switch {
	case b.Len() == 0:
		l.counts.Gated += uint64(s.Gated)
		l.counts.count(s.Alarm)
		return s, nil
	case l.metric == nil:
		l.rests.pass(b, false, nil, l.cfg.Dim)
		return l.warmUp(b, s)
	}
	return l.learn(b, s)
}

// Skip counts rows that the caller left out because it could not keep up. Even skipping of whole
// minibatches leaves C_L unbiased (section 5.1).
func (l *Learner) Skip(rows int) { l.counts.Skipped += uint64(rows) }

// SkipSeries is Skip for rows of series, as LearnSeries takes them, of which so many have no nulls: they move their series on, so that the last rows of
// those that are learnt are the ones that were there.
func (l *Learner) SkipSeries(x *mat.Dense, rows int, series []uint64) {
	l.Skip(rows)
	l.recent.pass(x.RawMatrix().Data, series, l.cfg.Dim)
}

// learn is one stochastic EM step, or more while the stream is young: the minibatch is judged by what is known, is learnt, and is remembered.
func (l *Learner) learn(all pool.Batch, s Step) (Step, error) {
	j, anomalous := l.judgeMinibatch(all, &s)
	l.rests.pass(all, anomalous, l.longest, l.cfg.Dim)
	if anomalous {
		return l.quarantine(all, s)
	}
	since, held := l.since, l.pool.Len()
	learnt, err := l.step(j, &s)
	if err == nil {
		err = l.remember(learnt, since, held, &s)
	}
	if err != nil {
		return Step{}, err
	}
	return s, nil
}

// judgeMinibatch judges a minibatch by the current regime, or by a former one that it brings back. anomalous says that it is not to be learnt.
func (l *Learner) judgeMinibatch(all pool.Batch, s *Step) (j judgement, anomalous bool) {
	l.estimator.load(l.pool, l.metric, l.work)
	l.reviseGate()
	j = l.judge(all, s)
	anomalous = l.isAnomalous(j, s)
	if l.lockout.Tripped && !anomalous && !s.Opened && !l.cfg.Finite && 2*j.far <= all.Len() {
		l.lockout = watch.Refusals{} // it is over: the current metric knows the rows
	}
	anomalous = anomalous || l.lockout.Tripped
	if !anomalous && !s.Opened && !l.beganLately() {
		return j, false
	}
	switch waiting := l.warm.Len(); {
	case l.regimeReturns(all, waiting+all.Len() >= l.patience(), belowCurrent(anomalous, s)):
		s.Alarm, s.Released = AlarmRegimeReturned, waiting
		if l.renewed && l.recent.learner != nil {
			l.recent.learner.Back(l.evaluator)
		}
	case anomalous:
		return j, true
	default: // trying the former metrics has taken the estimator's memory, and the moments with it
		l.estimator.load(l.pool, l.metric, l.work)
	}
	s.Alone = 0
	return l.judge(all, s), false
}

// step learns a minibatch: C_L by equation 8, then μ and C_G, then B_G and B_L by Proposition 1. Some of the rows replace neighbours.
func (l *Learner) step(j judgement, s *Step) (learnt pool.Batch, err error) {
	l.acceptNormal(j, s)
	s.PassRows = l.cfg.memory(l.since, l.gap)
	s.Discount = l.cfg.discount(j.moments.Rows, s.PassRows)
	s.Copies = j.moments.Copies
	l.holdMoved(j.all)
	b, m := l.dropGated(j.inside, j.moments)
	s.Learnt = m.Rows + m.Atoms
	s.Gated += j.all.Len() - b.Len()
	if m.Rows > 0 {
		l.metric.average(m, s.Discount, l.work)
	}
	s.Entered = l.offerToPool(b, l.kept)
	l.moments.learn(b.X, l.work)
	s.Entered += l.admitHeld()
	s.Eigen, err = l.updateMetric(1 - s.Discount)
	l.split = true
	return b, err
}

// remember does what follows once rows have been learnt: it counts them, rehearses the pool, and lets the data choose. since is regime.since without them,
// and held how many rows the pool had.
func (l *Learner) remember(learnt pool.Batch, since uint64, held int, s *Step) error {
	l.updateCounters(s)
	if err := l.replayPool(since, s); err != nil {
		return err
	}
	if err := l.stepChoice(learnt, since, held, s); err != nil {
		return err
	}
	if l.counts.Minibatches%alignEvery == 0 || l.rowsDoubled(since) {
		l.reviseGap(l.pool.Batch())
	}
	return l.aligned.advance(&l.model)
}

// updateCounters adds a step to the counters and running means.
func (l *Learner) updateCounters(s *Step) {
	s.Gaussian, s.Parzen = len(l.metric.Active)-l.metric.parzen, l.metric.parzen
	s.Pool, s.Ridged = l.pool.Len(), l.metric.ridged
	c := &l.counts
	c.Learnt += uint64(s.Learnt)
	l.since += uint64(s.Learnt)
	c.Gated += uint64(s.Gated)
	c.Copies += uint64(s.Copies)
	c.Minibatches++
	if share, alarm := l.lockout.Count(s.Rows, s.Gated+s.Quarantined, max(l.cfg.Neighbours, 2*l.cfg.driftRows()), l.cfg.Drift); alarm {
		if s.RefusedShare = share; s.Alarm == AlarmNone {
			s.Alarm = AlarmRefused
		}
	}
	c.count(s.Alarm)
	l.running.add(s)
}

// NextPass says that the rows that follow are those of the pass before, in the same order: places in time begin again, and
// an unfinished change is given up, because the first rows do not follow the last ones. It returns how many rows that were.
func (l *Learner) NextPass() (released int) {
	if l.metric == nil {
		l.warm, l.slow = pool.Batch{}, 0 // they come again
	}
	released = l.release(l.Quarantined())
	l.clocks = nil
	l.recent.over = true
	return released
}

// Quarantined returns how many rows are set aside until the change that they show is over, or lasts long enough to be
// believed.
func (l *Learner) Quarantined() int {
	if l.metric == nil { // the warm-up's
		return 0
	}
	return l.warm.Len()
}
