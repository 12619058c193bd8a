package online

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
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
//	    μ, C_G with the pool's memory (runningmoments.go), then B_G and B_L (metricstate.go)
//
// after which some of the rows replace neighbours (package pool). C_L is kept without ν.
type Learner struct {
	asked  Config  // as NewLearner was given it
	free   freedom // what asked leaves to the data
	cfg    Config  // no Auto left in the model, ν, its unit and the kernel
	family family  // of cfg.Metric

	regime         // the current one
	former formers // those before it

	wanted  int         // rows that a first model takes, or any, where a set ended before it had one (warmup.go); 0: none did
	warm    pool.Batch  // collected rows: of the warm-up, or in quarantine (restart.go)
	clocks  pool.Clocks // rows seen of each partition
	held    pool.Batch  // refused rows (held.go)
	lockout watch.Refusals
	choice  choice
	counts  counts
	running running
	rests   rests
	recent  lastRows
	unusual holds
	normal  bool // see Normal

	splits uint64 // found so far
	*space
}

// counts are totals since the learner was made.
type counts struct {
	Rows, Learnt, Skipped, Gated, Copies uint64

	Alarms      uint64 // restarts
	Lockouts    uint64 // those of them because most rows were refused
	Returns     uint64 // former metrics that became current again
	Refusals    uint64 // alarms because many rows were refused for long
	Minibatches uint64 // calls of Learn that updated C_L
}

// NewLearner returns a learner that has seen nothing.
func NewLearner(c Config) (*Learner, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	asked := c
	c = c.resolved()
	family, err := newFamily(c)
	if err != nil {
		return nil, err
	}
	l := &Learner{asked: asked, free: asked.freedom(), cfg: c, family: family, regime: emptyRegime(c), space: newSpace(c)}
	if c.Recent && c.Dim <= recent.MostColumns {
		l.recent.learner = recent.NewLearner(c.Dim)
	}
	return l, nil
}

// emptyRegime is that of a learner that has seen nothing.
func emptyRegime(c Config) regime {
	return regime{
		settings: c.recipe(),
		pool:     pool.New(c.Neighbours, c.Dim),
		moments:  newRunningMoments(c.momentsMemory(), c.Dim),
		cl:       make([]float64, c.Dim*c.Dim),
		gate:     scoreGate{limit: math.Inf(1)},
	}
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
	rows, largest, err := l.check(x, ids, partitions, series)
	if err != nil {
		return Step{}, err
	}
	s := Step{NLL: math.NaN(), GaussianNLL: math.NaN(), Effective: math.NaN(), Discount: 1}
	b := l.sanitise(rows, ids, partitions, largest, &s)
	l.counts.Rows += uint64(s.Rows)
	n := len(rows) / l.cfg.Dim
	series = l.seriesOf(series, partitions, n)
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

// learn is one stochastic EM step, or more while the stream is young: the minibatch is judgement by what is known, is learnt, and is remembered.
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

// judgement is a minibatch under the metric before it is learnt.
type judgement struct {
	all, inside pool.Batch      // all its rows; those that a gate by C_G lets pass
	moments     *kernel.Moments // the E-step of those
	far         int             // rows that are far from what was learnt
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
	refused := anomalous || l.keepsKnown() && 2*j.far > all.Len()
	if refused || s.Opened || l.beganLately() {
		switch waiting := l.warm.Len(); {
		case l.cfg.Drift && l.regimeReturns(all, waiting+all.Len() >= l.patience(), l.belowCurrent(anomalous, s)):
			s.Alarm, s.Alone, s.Released = AlarmRegimeReturned, 0, waiting
		case (2*j.far > all.Len() || !l.stuck && !l.manyFar(j.far, all.Len())) && l.knownReturns(all): // rows that are far, or quiet
			s.Alarm, s.Alone, refused = AlarmRegimeReturned, 0, false
		case anomalous:
			l.noteRefused(all, true)
			return j, true
		default: // trying the former metrics has taken the estimator's memory, and the moments with it
			l.estimator.load(l.pool, l.metric, l.work)
			s.Alone = 0
		}
		j = l.judge(all, s)
	}
	l.noteRefused(all, refused)
	return j, false
}

// belowCurrent is the NLL that a former regime must be below to return.
func (l *Learner) belowCurrent(anomalous bool, s *Step) float64 {
	if anomalous || s.Opened {
		return math.Inf(1)
	}
	return s.NLL - formerLately
}

// step learns a minibatch: C_L by equation 8, then μ and C_G, then B_G and B_L by Proposition 1. Some of the rows replace neighbours.
func (l *Learner) step(j judgement, s *Step) (learnt pool.Batch, err error) {
	l.acceptNormal(j, s)
	s.PassRows = l.cfg.memory(l.since, l.gap)
	s.Discount, s.Steps = l.cfg.discount(j.moments.Rows, s.PassRows), l.cfg.steps(l.since)
	s.Copies = j.moments.Copies
	l.holdMoved(j.all)
	b, m := l.dropGated(j.inside, j.moments)
	s.Learnt = m.Rows + m.Atoms
	s.Gated += j.all.Len() - b.Len()
	if m.Rows > 0 {
		l.metric.average(m, s.Discount, l.work)
	}
	for range s.Steps - 1 {
		if err := l.repeatStep(b, s); err != nil {
			return b, err
		}
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
	l.keepKnown(since)
	return l.aligned.advance(l)
}

// reviseGap computes the time gap again, from rows that were learnt.
func (l *Learner) reviseGap(b pool.Batch) {
	l.dependence.Measure(b, l.cfg.Dim)
	l.gap = l.dependence.Gap(l.gap, l.cfg.Neighbours, l.cfg.Finite)
}

// judge runs the E-step of a minibatch under the current metric, which must be loaded, and sets the prequential figures of s.
func (l *Learner) judge(all pool.Batch, s *Step) judgement {
	l.closed = false
	b := l.inliers(all)
	m, far := l.eStep(b, all.Len()-b.Len())
	if s.Opened = l.opensGate(far, all.Len()); s.Opened {
		b = all
		l.estimator.project(b.X, l.moments.mean)
		m = l.estimator.update(l.exclusion(b))
	} else {
		l.closeGate(m)
	}
	l.evaluate(m, b.X, s)
	return judgement{all, b, m, far}
}

// eStep runs the E-step, and counts the rows that are far from what was learnt: those that the gate refuses, and with a
// gate in kernel widths those beyond kernel.FarLimit.
func (l *Learner) eStep(b pool.Batch, outliers int) (m *kernel.Moments, far int) {
	ex := l.exclusion(b)
	ex.Gate = l.cfg.kernelGate()
	m = l.estimator.update(ex)
	return m, outliers + l.countFar(b, m)
}

// exclusion says which pairs of a row and a neighbour are not admissible: the same record, rows that are near in
// time (package timegap), and near copies. Each would draw the kernel to width 0, and ν could
// not prevent it, because it is not part of the average.
func (l *Learner) exclusion(b pool.Batch) kernel.Exclusion {
	l.starts, l.excluded = append(l.starts[:0], 0), l.excluded[:0]
	for _, id := range b.IDs {
		if s := l.pool.Slot(id); s >= 0 {
			l.excluded = append(l.excluded, s)
		}
		l.starts = append(l.starts, int32(len(l.excluded)))
	}
	ex := kernel.Exclusion{Start: l.starts, Index: l.excluded, Gate: math.Inf(1)}
	ex.Order, ex.Window = l.inTime.Windows(l.pool.Places, b.Places, l.gap)
	if l.metric.parzen > 0 { // without a kernel no pair can draw it to width 0
		ex.NearCopy, ex.Atom = kernel.NearCopy*float64(len(l.metric.Active)), kernel.AtomCopies
	}
	return ex
}

// dropGated returns the rows that the gate let pass, and their E-step.
func (l *Learner) dropGated(b pool.Batch, m *kernel.Moments) (pool.Batch, *kernel.Moments) {
	l.kept = l.kept[:0]
	for i := range b.IDs {
		if m.Used[i] || m.Admissible[i] == 0 {
			l.kept = append(l.kept, i)
		}
	}
	if len(l.kept) == b.Len() {
		return b, m
	}
	l.hold(b, l.kept)
	b = l.sifted.Pick(b, l.kept, l.cfg.Dim)
	if !l.closed {
		return b, m // a gate in kernel widths has left the others out of the moments
	}
	return b, l.again(b)
}

// repeatStep is another EM step with the same rows, under the metric that has just learnt them.
func (l *Learner) repeatStep(b pool.Batch, s *Step) error {
	if _, err := l.updateMetric(1 - s.Discount); err != nil {
		return err
	}
	l.split = true
	l.estimator.load(l.pool, l.metric, l.work)
	m := l.again(b)
	if m.Rows > 0 {
		l.metric.average(m, s.Discount, l.work)
	}
	return nil
}

// again is the E-step for some of the rows, or under another metric.
func (l *Learner) again(b pool.Batch) *kernel.Moments {
	l.estimator.project(b.X, l.moments.mean)
	l.kept = l.kept[:0]
	for i := range b.IDs {
		l.kept = append(l.kept, i)
	}
	return l.estimator.update(l.exclusion(b))
}

// offerToPool offers rows to the pool and returns how many entered. placed are their indices among the rows that the
// estimator has projected; nil before the first metric.
func (l *Learner) offerToPool(b pool.Batch, placed []int) (entered int) {
	d := l.cfg.Dim
	for i, id := range b.IDs {
		slot := l.pool.Offer(id)
		if slot < 0 {
			continue
		}
		l.pool.Put(slot, id, b.Places[i], b.X[i*d:(i+1)*d])
		if placed != nil {
			l.estimator.replace(slot, placed[i])
		}
		entered++
	}
	return entered
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
		l.warm = pool.Batch{} // they come again
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
