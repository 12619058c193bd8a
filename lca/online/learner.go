package online

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
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
// after which some of the rows replace neighbours (pool.go). C_L is kept without ν.
type Learner struct {
	asked     Config  // as NewLearner was given it
	free      freedom // what asked leaves to the data
	cfg       Config  // no Auto left in the model, ν, its unit and the kernel
	family    family  // of cfg.Metric
	estimator estimator

	regime         // the current one
	former formers // those before it

	wanted   int         // rows that a first model takes, or any, where a set ended before it had one (warmup.go); 0: none did
	warm     pool.Batch  // collected rows: of the warm-up, or in quarantine (restart.go)
	clocks   pool.Clocks // rows seen of each partition
	held     pool.Batch  // refused rows (held.go)
	tailNeed float64     // share of the last rows that need the stream's tails to pass the gate (gate.go)
	lockout  lockout
	choice   choice
	counts   counts
	running  running
	recent   lastRows
	unusual  holds
	normal   bool // see Normal

	splits uint64       // found so far
	spare  *metricState // the previous metric, whose memory is used again
	work   *linalg.Workspace
	buffers
}

// buffers are the scratch memory of Learn.
type buffers struct {
	m1, m2, global   []float64
	rows             []float64
	ids, series      []uint64
	places           []pool.Place
	inside, sifted   pool.Batch
	apart            apart
	inTime           pool.Near
	kept, moved      []int  // rows of the last minibatch that was judged: those that are left, and those in which a constant column has moved
	beyond           []bool // rows of the last E-step that are far, or that the gate refuses
	outside          []bool // those that a gate by distance refuses over the Gaussian directions
	tail             poolTail
	stuckFor         uint64 // rows for which a column has repeated the value of the last minibatch, if that is stuck
	closed           bool   // whether a row that the gate refuses had counted in it
	starts, excluded []int32
	density, sorted  []float64
	single, offset   []float64
}

// counts are totals since the learner was made.
type counts struct {
	Rows, Learnt, Skipped, Gated, Copies uint64

	Alarms      uint64 // restarts
	Lockouts    uint64 // those of them because most rows were refused
	Returns     uint64 // former metrics that became current again
	Refusals    uint64 // alarms because many rows were refused for long
	Minibatches uint64 // calls of Learn that updated C_L
	Since       uint64 // rows learnt since the start or the last restart
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
	l := &Learner{asked: asked, free: asked.freedom(), cfg: c, family: family, estimator: newEstimator(c), regime: emptyRegime(c), work: new(linalg.Workspace)}
	if c.Recent && c.Dim <= recent.MostColumns {
		l.recent.learner = recent.NewLearner(c.Dim)
	}
	return l, nil
}

// emptyRegime is that of a learner that has seen nothing; no Auto may be left in c.Pool.
func emptyRegime(c Config) regime {
	return regime{
		settings: c.recipe(),
		pool:     pool.New(c.Pool, c.Neighbours, c.Dim, c.Seed),
		moments:  newRunningMoments(c.momentsMemory(), c.Dim),
		cl:       make([]float64, c.Dim*c.Dim),
		gap:      newTimeGap(c),
		gate:     scoreGate{limit: math.Inf(1)},
	}
}

// Learn learns a minibatch. ids are the identities of its rows, such as a hash of topic, partition,
// offset and row: a row is never its own neighbour, even if it is delivered again. nil ids mean that
// no row comes twice. partitions say which sequence each row continues: rows that are near in time in the
// same one are no neighbours (timegap.go). nil partitions mean that all rows are of one sequence.
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

// learn is one stochastic EM step, or more while the stream is young.
func (l *Learner) learn(all pool.Batch, s Step) (Step, error) {
	l.estimator.load(l.pool, l.metric, l.work)
	l.reviseGate()
	b, m, far := l.judge(all, &s)
	l.tailNeed = l.tail.need
	anomalous := l.isAnomalous(b, m, far, all.Len(), &s)
	if l.lockout.tripped && !anomalous && !s.Opened && !l.cfg.Finite && 2*far <= all.Len() {
		l.lockout = lockout{} // it is over: the current metric knows the rows
	}
	anomalous = anomalous || l.lockout.tripped
	refused := anomalous || l.keepsKnown() && 2*far > all.Len()
	if refused || s.Opened || l.beganLately() {
		waiting := l.warm.Len()
		below := math.Inf(1)
		if !anomalous && !s.Opened {
			below = s.NLL - formerLately
		}
		switch {
		case l.cfg.Drift && l.regimeReturns(all, waiting+all.Len() >= l.patience(), below):
			s.Alarm, s.Alone, s.Released = AlarmRegimeReturned, 0, waiting
			b, m, far = l.judge(all, &s)
		case (2*far > all.Len() || l.stuckFor == 0 && !l.manyFar(far, all.Len())) && l.knownReturns(all): // rows that are far, or quiet
			s.Alarm, s.Alone, refused = AlarmRegimeReturned, 0, false
			b, m, far = l.judge(all, &s)
		case anomalous:
			l.noteRefused(all, true)
			return l.quarantine(all, s)
		default: // trying the former metrics has taken the estimator's memory, and m with it
			l.estimator.load(l.pool, l.metric, l.work)
			s.Alone = 0
			b, m, far = l.judge(all, &s)
		}
	}
	l.noteRefused(all, refused)
	l.acceptNormal(far, b.Len(), &s)
	s.PassRows = l.cfg.memory(l.counts.Since, l.gap.rows)
	s.Discount, s.Steps = l.cfg.discount(m.Rows, s.PassRows), l.cfg.steps(l.counts.Since)
	s.Copies = m.Copies
	l.holdMoved(all)
	b, m = l.dropGated(b, m)
	s.Learnt = m.Rows + m.Atoms
	s.Gated += all.Len() - b.Len()
	if m.Rows > 0 {
		l.metric.average(m, s.Discount, l.work)
	}
	for range s.Steps - 1 {
		if err := l.repeatStep(b, &s); err != nil {
			return Step{}, err
		}
	}
	held := l.pool.Len()
	s.Entered = l.offerToPool(b, l.kept)
	l.moments.learn(b.X, l.work)
	s.Entered += l.admitHeld()
	var err error
	if s.Eigen, err = l.updateMetric(1 - s.Discount); err != nil {
		return Step{}, err
	}
	l.split = true
	before := l.counts.Since
	l.updateCounters(&s)
	return l.follow(b, before, held, s)
}

// follow does what follows once a minibatch has been learnt. before is counts.Since without it, and held the pool's rows.
func (l *Learner) follow(b pool.Batch, before uint64, held int, s Step) (Step, error) {
	err := l.replayPool(before, &s)
	if err == nil {
		err = l.stepChoice(b, before, held, &s)
	}
	if err != nil {
		return Step{}, err
	}
	l.reviseGap(b)
	l.keepKnown(before)
	return s, l.aligned.advance(l)
}

// judge runs the E-step of a minibatch under the current metric, which must be loaded, and sets the prequential figures
// of s. b are the rows that a gate by C_G lets pass, and far is the number of rows that are far from what was learnt.
func (l *Learner) judge(all pool.Batch, s *Step) (b pool.Batch, m *kernel.Moments, far int) {
	l.closed = false
	if l.gatesByDistance() {
		l.measureTail()
	}
	b = l.inliers(all)
	m, far = l.eStep(b, all.Len()-b.Len())
	if s.Opened = l.opensGate(far, all.Len()); s.Opened {
		b = all
		l.estimator.project(b.X, l.moments.mean)
		m = l.estimator.update(l.exclusion(b))
	} else {
		l.closeGate(m)
	}
	l.evaluate(m, b.X, s)
	return b, m, far
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
// time (timegap.go), and near copies unless the data is discrete. Each would draw the kernel to width 0, and ν could
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
	ex.Order, ex.Window = l.inTime.Windows(l.pool.Places, b.Places, l.gap.rows)
	if l.cfg.NearCopies && l.metric.parzen > 0 { // without a kernel no pair can draw it to width 0
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
	c.Since += uint64(s.Learnt)
	c.Gated += uint64(s.Gated)
	c.Copies += uint64(s.Copies)
	c.Minibatches++
	if l.lockout.watch(s, max(l.cfg.Neighbours, 2*l.cfg.driftRows()), l.cfg.Drift) && s.Alarm == AlarmNone {
		s.Alarm = AlarmRefused
	}
	c.count(s.Alarm)
	l.running.add(s)
}

// Step is what one call of Learn did. All NLLs are prequential: of the minibatch under the model
// before it was learnt, in nats per row, with all normalising constants.
type Step struct {
	Rows        int  // rows handed in
	Warmup      bool // the rows were only collected: there is no metric yet
	Learnt      int  // rows that entered Ĉ_L
	Gated       int  // rows left out by the outlier gate, and of anomalous minibatches with Drift off
	Opened      bool // more than a tenth were far, so the gate was opened and all were learnt
	Alone       int  // rows without an admissible neighbour, left out
	Copies      int  // pairs of a row and a neighbour left out as near copies or the same record
	Quarantined int  // rows of an anomalous minibatch, which is kept and not learnt (restart.go)
	Released    int  // rows of anomalous minibatches that are given up: the change did not last, or Drift is off
	Held        int  // rows of series that are unusual for a while, kept and not learnt (holds.go)
	Accepted    int  // series of which what was held is normal now
	Joined      int  // rows of anomalous minibatches that are learnt with the others, because a finite set has no order
	Entered     int  // rows that entered the pool

	NLL         float64 // mean over the rows that were not gated; NaN while warming up or where none is left
	GaussianNLL float64 // the same rows under a single Gaussian with the running μ and C_G + ν_g
	Effective   float64 // mean effective number of neighbours exp(H(λ_i))

	Discount     float64     // γ^(B/n): the weight C_L kept
	PassRows     float64     // n
	Steps        int         // EM steps taken
	Replayed     int         // EM steps over the whole pool (pool.go)
	Choice       *lca.Choice // what the data have chosen, where the stream begins (warmup.go) or a comparison ended at this step (choice.go); nil elsewhere
	Eigen        bool        // the split was computed again (Proposition 1); otherwise B_L changed within its span (metricstate.go)
	Ridged       bool        // C_G or C_L was singular and got a small ridge: raise ν or ν_g
	Z            float64     // drift statistic
	Alarm        Alarm       // why the metric is another one, or AlarmRefused
	RefusedShare float64     // of the last rows, at AlarmRefused for many of them; 0 elsewhere
	Still        bool        // no column moves any more, at AlarmRefused for that
	Gaussian     int         // d_G after the step
	Parzen       int         // d_P after the step
	Pool         int         // rows in the pool after the step
}

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
		n := l.pool.Len()
		return Waiting{Rows: n, Wanted: n + 1}, true
	}
	w = Waiting{Rows: l.warm.Len(), Wanted: l.warmupWanted()}
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

// runningRows is the memory of the figures in Info, in rows: about that of C_L.
const runningRows = 3000

// running are the means of Step's figures over the recent past. A young stream's are plain means.
type running struct {
	Weight                      float64 // rows that the means stand for, ≤ runningRows
	NLL, GaussianNLL, Effective float64
}

func (r *running) add(s *Step) {
	if s.Learnt == 0 || math.IsNaN(s.NLL) || math.IsInf(s.NLL, 0) {
		return
	}
	r.Weight = min(r.Weight+float64(s.Learnt), max(runningRows, float64(s.Learnt)))
	w := float64(s.Learnt) / r.Weight
	r.NLL += float64(w * (s.NLL - r.NLL))
	r.GaussianNLL += float64(w * (s.GaussianNLL - r.GaussianNLL))
	r.Effective += float64(w * (s.Effective - r.Effective))
}

// join learns the rows in quarantine in addition to all rows before them. A finite set may be sorted: what begins in the
// midst of it is no new regime that replaces the former one, but another part of the set. A fault that is over before
// it is believed is left out of a finite set as it is of a stream.
//
// As after a restart, EM runs from C_G on the pool, with all directions Parzen, because C_L as it was knows only
// the former part.
func (l *Learner) join(s Step) (Step, error) {
	b, compared := l.warm, l.choice.began > 0
	l.warm, l.lockout = pool.Batch{}, lockout{}
	l.choice.drop() // its candidates know only the former part
	l.moments.learn(b.X, l.work)
	s.Entered, s.Joined, s.Learnt = l.offerToPool(b, nil), b.Len(), b.Len()
	l.renewEstimator() // it knows the former rows of the pool
	if err := l.startFromGlobal(); err != nil {
		return Step{}, err
	}
	if _, err := l.convergeOnPool(l.pool.Batch(), &s); err != nil {
		return Step{}, err
	}
	l.drift = drift{}
	l.insideGate(new(pool.Batch).Sample(l.pool.Batch(), gateRows, int(l.gate.turn), l.cfg.Dim))
	l.renewEstimator()
	l.updateCounters(&s)
	if compared {
		l.startChoice()
	}
	return s, l.aligned.advance(l)
}

// NextPass says that the rows that follow are those of the pass before, in the same order: places in time begin again, and
// an unfinished change is given up, because the first rows do not follow the last ones. It returns how many rows that were.
func (l *Learner) NextPass() (released int) {
	if l.metric == nil {
		l.warm = pool.Batch{} // they come again
	}
	released = l.release(l.Quarantined())
	l.clocks, l.gap.tracks = nil, nil
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

// Frozen is what a learner has learnt up to one row. The learner may go on meanwhile: with many columns a model takes as
// long as several minibatches, a split and a rotation of its own, and Frozen.Model may run on another goroutine.
type Frozen struct {
	learner *Learner   // only what a model follows from; it cannot learn. nil: the model is young
	model   *lca.Model // without what takes long
}

// Freeze returns a copy of what a model follows from. It costs about as much as copying a few matrices and the pool, and leaves
// the learner unchanged. Before the first update it returns ErrWarmup.
func (l *Learner) Freeze() (*Frozen, error) {
	if l.metric == nil || l.counts.Minibatches == 0 {
		return nil, ErrWarmup
	}
	m := &lca.Model{
		Dim: l.cfg.Dim, Mean: slices.Clone(l.moments.mean),
		Neighbours: make([]float32, len(l.pool.Rows)),
		Kind:       l.cfg.Kind, Metric: l.cfg.Metric, Kernel: l.cfg.Kernel, DOF: l.cfg.DOF,
		Recent: l.recent.evaluator(),
		Info:   l.info(),
	}
	for i := 0; i < len(l.pool.Rows); i += m.Dim {
		for k, mean := range m.Mean {
			m.Neighbours[i+k] = float32(l.pool.Rows[i+k] - mean)
		}
	}
	return &Frozen{l.frozen(), m}, nil
}

// frozen returns a learner of which Frozen.Model uses the methods, and which shares no memory that l writes to.
func (l *Learner) frozen() *Learner {
	was := l.metric
	return &Learner{cfg: l.cfg, family: l.family, regime: regime{
		pool:    l.pool.Rowless(),
		moments: l.moments.clone(),
		cl:      slices.Clone(l.cl),
		metric: &metricState{
			ColumnScale: prop1.ColumnScale{Active: slices.Clone(was.Active), Scale: slices.Clone(was.Scale)},
			parzen:      was.parzen, inverse: slices.Clone(was.inverse),
			spanUpdate: spanUpdate{keep: was.keep, fresh: slices.Clone(was.fresh)},
		},
		aligned: reference{w: slices.Clone(l.aligned.w)},
		gap:     timeGap{rows: l.gap.rows},
		gate:    l.gate,
	}}
}

// Model returns the model of Learner.Model at the row of Freeze. It is called once.
func (f *Frozen) Model() (*lca.Model, error) {
	l, m := f.learner, f.model
	if l == nil {
		return m, nil
	}
	l.work = linalg.Borrow()
	defer l.work.Return()
	l.metric.current(l.cl, l.cl, l.cfg.Dim, l.work)
	if err := l.family.model(l, m, l.cl); err != nil {
		return nil, err
	}
	m.ScoreNeighbours(l.admissible())
	if l.cfg.Coordinates != lca.CoordinatesAligned { // they need no history
		return m.View(l.cfg.Coordinates, l.cfg.Components)
	}
	m.Coordinates, m.Components = l.cfg.Coordinates, l.cfg.Components
	var err error
	m.W, err = l.aligned.whitening(m)
	return m, err
}
