package online

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
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
//	M   C_L ← γ^(B/n) C_L + (1−γ^(B/n)) Ĉ_L        (eq. 8; growth.go has n)
//	    μ, C_G with the pool's memory (runningmoments.go), then B_G and B_L (metricstate.go, spanupdate.go)
//
// after which some of the rows replace neighbours (pool.go). C_L is kept without ν.
type Learner struct {
	cfg       Config // no Auto left in ν, its unit and the kernel
	family    family // of cfg.Metric
	estimator estimator

	pool    *pool
	moments *runningMoments
	warm    warmup       // collected rows: of the warm-up, or in quarantine (restart.go)
	cl      []float64    // C_L without ν, dim×dim, both triangles
	metric  *metricState // nil while warming up
	split   bool         // the metric is the result of an M-step, and not the initial one from C_G
	drift   drift
	aligned reference
	refit   refit
	counts  counts
	running running

	splits uint64       // found so far
	spare  *metricState // the previous metric, whose memory is used again
	work   linalg.Workspace
	buffers
}

// buffers are the scratch memory of Learn.
type buffers struct {
	m1, m2, global   []float64
	rows             []float64
	ids              []uint64
	inside, sifted   picked
	kept             []int
	starts, excluded []int32
	density          []float64
	single, offset   []float64
}

// picked holds a selection of a minibatch's rows.
type picked struct {
	rows []float64
	ids  []uint64
}

// pick copies the given rows and identities; they are valid until the next call.
func (p *picked) pick(rows []float64, ids []uint64, kept []int, d int) ([]float64, []uint64) {
	p.rows, p.ids = p.rows[:0], p.ids[:0]
	for _, i := range kept {
		p.rows, p.ids = append(p.rows, rows[i*d:(i+1)*d]...), append(p.ids, ids[i])
	}
	return p.rows, p.ids
}

// counts are totals since the learner was made.
type counts struct {
	Rows, Learnt, Skipped, Gated, Copies, Alarms uint64
	Minibatches                                  uint64 // calls of Learn that updated C_L
	Since                                        uint64 // rows learnt since the start or the last alarm
}

// NewLearner returns a learner that has seen nothing.
func NewLearner(c Config) (*Learner, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Nu, c.NuGaussian, c.NuUnit = c.Preset.Resolve(c.Nu, c.NuGaussian, c.NuUnit)
	c.Kernel, c.DOF = c.Kernel.Resolve(c.DOF)
	c.Pool = c.Pool.resolved()
	family, err := newFamily(c)
	if err != nil {
		return nil, err
	}
	d := c.Dim
	return &Learner{
		cfg: c, family: family, estimator: newEstimator(c),
		pool:    newPool(c.Pool, c.Neighbours, d, c.Seed),
		moments: newRunningMoments(c.momentsMemory(), d),
		cl:      make([]float64, d*d),
	}, nil
}

// Learn learns a minibatch. ids are the identities of its rows, such as a hash of topic, partition,
// offset and row: a row is never its own neighbour, even if it is delivered again. nil ids mean that
// no row comes twice.
//
// A row with a NaN or an infinity is an error that leaves the state untouched. x is not kept.
func (l *Learner) Learn(x *mat.Dense, ids []uint64) (Step, error) {
	rows, largest, err := l.check(x, ids)
	if err != nil {
		return Step{}, err
	}
	s := Step{NLL: math.NaN(), GaussianNLL: math.NaN(), Effective: math.NaN(), Discount: 1}
	rows, ids = l.sanitise(rows, ids, largest, &s)
	l.counts.Rows += uint64(s.Rows)
	switch {
	case len(ids) == 0:
		l.counts.Gated += uint64(s.Gated)
		return s, nil
	case l.metric == nil:
		return l.warmUp(rows, ids, s)
	}
	return l.learn(rows, ids, s)
}

// Skip counts rows that the caller left out because it could not keep up. Even skipping of whole
// minibatches leaves C_L unbiased (section 5.1).
func (l *Learner) Skip(rows int) { l.counts.Skipped += uint64(rows) }

// learn is one stochastic EM step, or more while the stream is young.
func (l *Learner) learn(rows []float64, ids []uint64, s Step) (Step, error) {
	l.estimator.load(l.pool, l.metric, &l.work)
	all, allIDs := rows, ids
	rows, ids = l.inliers(rows, ids)
	m, far := l.eStep(ids, len(allIDs)-len(ids))
	if s.Opened = l.opensGate(far, len(allIDs)); s.Opened {
		rows, ids = all, allIDs
		l.estimator.project(rows, l.moments.mean)
		m = l.estimator.update(l.exclusion(ids))
	}
	l.evaluate(m, rows, &s)
	if l.isAnomalous(far, len(allIDs), &s) {
		return l.quarantine(all, allIDs, s)
	}
	l.acceptNormal(len(ids), &s)
	s.Learnt, s.Copies = m.Rows, m.Copies
	s.PassRows = l.cfg.memory(l.counts.Since, l.cfg.Dim)
	s.Discount, s.Steps = l.cfg.discount(m.Rows, s.PassRows), l.cfg.steps(l.counts.Since)
	rows, ids = l.dropGated(rows, ids, m)
	s.Gated += len(allIDs) - len(ids)
	if m.Rows > 0 {
		l.metric.average(m, s.Discount, &l.work)
	}
	for range s.Steps - 1 {
		if err := l.repeatStep(rows, ids, &s); err != nil {
			return Step{}, err
		}
	}
	s.Entered = l.offerToPool(rows, ids, l.kept)
	l.moments.learn(rows, &l.work)
	var err error
	if s.Eigen, err = l.updateMetric(1 - s.Discount); err != nil {
		return Step{}, err
	}
	l.split = true
	before := l.counts.Since
	l.updateCounters(&s)
	if err := l.replayPool(before, &s); err != nil {
		return Step{}, err
	}
	if err := l.stepRefit(rows, ids, before, &s); err != nil {
		return Step{}, err
	}
	return s, l.aligned.advance(l)
}

// eStep runs the E-step, and counts the rows that are far from what was learnt: the outliers, and those beyond farLimit.
func (l *Learner) eStep(ids []uint64, outliers int) (m *kernel.Moments, far int) {
	ex := l.exclusion(ids)
	ex.Gate = l.cfg.kernelGate()
	m = l.estimator.update(ex)
	return m, outliers + l.countFar(m)
}

// exclusion says which pairs of a row and a neighbour are not admissible: the same record, and
// near copies unless the data is discrete. Either would draw the kernel to width 0, and ν could not prevent it,
// because it is not part of the average.
func (l *Learner) exclusion(ids []uint64) kernel.Exclusion {
	l.starts, l.excluded = append(l.starts[:0], 0), l.excluded[:0]
	for _, id := range ids {
		if s := l.pool.slots.slot(id); s >= 0 {
			l.excluded = append(l.excluded, s)
		}
		l.starts = append(l.starts, int32(len(l.excluded)))
	}
	ex := kernel.Exclusion{Start: l.starts, Index: l.excluded, Gate: math.Inf(1)}
	if l.cfg.NearCopies {
		ex.NearCopy = kernel.NearCopy * float64(len(l.metric.Active))
	}
	return ex
}

// dropGated returns the rows that the gate let pass.
func (l *Learner) dropGated(rows []float64, ids []uint64, m *kernel.Moments) ([]float64, []uint64) {
	l.kept = l.kept[:0]
	for i := range ids {
		if m.Used[i] || m.Admissible[i] == 0 {
			l.kept = append(l.kept, i)
		}
	}
	if len(l.kept) == len(ids) {
		return rows, ids
	}
	return l.sifted.pick(rows, ids, l.kept, l.cfg.Dim)
}

// repeatStep is another EM step with the same rows, under the metric that has just learnt them.
func (l *Learner) repeatStep(rows []float64, ids []uint64, s *Step) error {
	if _, err := l.updateMetric(1 - s.Discount); err != nil {
		return err
	}
	l.split = true
	l.estimator.load(l.pool, l.metric, &l.work)
	l.estimator.project(rows, l.moments.mean)
	for i := range ids {
		l.kept[i] = i
	}
	m := l.estimator.update(l.exclusion(ids))
	if m.Rows > 0 {
		l.metric.average(m, s.Discount, &l.work)
	}
	return nil
}

// offerToPool offers rows to the pool and returns how many entered. placed are their indices among the rows that the
// estimator has projected; nil before the first metric.
func (l *Learner) offerToPool(rows []float64, ids []uint64, placed []int) (entered int) {
	d := l.cfg.Dim
	for i, id := range ids {
		slot := l.pool.offer(id)
		if slot < 0 {
			continue
		}
		l.pool.put(slot, id, rows[i*d:(i+1)*d])
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
	s.Pool, s.Ridged = l.pool.len(), l.metric.ridged
	c := &l.counts
	c.Learnt += uint64(s.Learnt)
	c.Since += uint64(s.Learnt)
	c.Gated += uint64(s.Gated)
	c.Copies += uint64(s.Copies)
	c.Minibatches++
	if s.Alarm {
		c.Alarms++
	}
	l.running.add(s)
}
