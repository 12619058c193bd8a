package online

import (
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/recent"
)

// model is what is learnt of a stream for as long as it stays as it is, and the step that learns it: the E-step of rows against the pool, C_L by equation 8,
// and the M-step by Proposition 1. It judges nothing: which rows it gets is for others to say.
type model struct {
	asked  Config  // as NewLearner was given it
	free   freedom // what asked leaves to the data
	cfg    Config  // no Auto left in the model, ν, its unit and the kernel
	family family  // of cfg.Metric
	regime
	counts counts
	splits uint64 // found so far
	*space
}

// newModel returns a model that has seen nothing.
func newModel(c Config) (model, error) {
	if err := c.Validate(); err != nil {
		return model{}, err
	}
	asked := c
	c = c.resolved()
	family, err := newFamily(c)
	if err != nil {
		return model{}, err
	}
	return model{asked: asked, free: asked.freedom(), cfg: c, family: family, regime: emptyRegime(c), space: newSpace(c)}, nil
}

// counts are totals since the learner was made.
type counts struct {
	Rows, Learnt, Skipped, Gated, Copies uint64

	Minibatches uint64                   // calls of Learn that updated C_L
	Alarms      [AlarmRefused + 1]uint64 // by kind
}

// regime is what is learnt of a stream's rows for as long as they stay as they are.
type regime struct {
	since    uint64     // rows learnt since it began
	settings recipe     // also in Learner.cfg while the regime is current
	chosen   lca.Choice // the last one; without candidates before the first
	pool     *pool.Pool
	moments  *runningMoments
	cl       []float64    // C_L without ν, dim×dim, both triangles
	metric   *metricState // nil while warming up
	split    bool         // the metric is the result of an M-step, and not the initial one from C_G
	drift    drift
	aligned  reference
	gap      uint64 // package timegap
	gate     scoreGate
	longest  []uint64 // rows that each column has rested (rests.go); nil: it is not known

	evaluator *recent.Evaluator // of the last rows, of a former regime; nil: it is not known
	renewed   bool              // what scores them began again when it was left
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

// setRegime makes a regime current, with its settings.
func (l *model) setRegime(r regime) {
	l.regime = r
	l.use(r.settings)
}

// use replaces the settings. The metric is then still that of the former ones, unless a split follows.
func (l *model) use(r recipe) {
	c := &l.cfg
	kernels := r.kernel != c.Kernel || r.dof != c.DOF
	l.settings, c.Nu, c.NuUnit, c.Kernel, c.DOF = r, r.nu, r.unit, r.kernel, r.dof
	if kernels {
		l.estimator = newEstimator(*c)
	}
}

// restore takes the settings of a state, except those that the configuration gives.
func (l *model) restore(was recipe) {
	r := l.cfg.recipe()
	if l.free.nu {
		r.nu = was.nu
	}
	if l.free.unit || l.free.affine {
		r.unit = was.unit
	}
	if l.free.kernel {
		r.kernel, r.dof = was.kernel, was.dof
	}
	l.use(r)
}

// exclusion says which pairs of a row and a neighbour are not admissible: the same record, rows that are near in
// time (package timegap), and near copies. Each would draw the kernel to width 0, and ν could
// not prevent it, because it is not part of the average.
func (l *model) exclusion(b pool.Batch) kernel.Exclusion {
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

// again is the E-step for some of the rows, or under another metric.
func (l *model) again(b pool.Batch) *kernel.Moments {
	l.place(b)
	return l.estimator.update(l.exclusion(b))
}

// place projects rows for offerToPool, of which kept are then all.
func (l *model) place(b pool.Batch) {
	l.estimator.project(b.X, l.moments.mean)
	l.kept = l.kept[:0]
	for i := range b.IDs {
		l.kept = append(l.kept, i)
	}
}

// offerToPool offers rows to the pool and returns how many entered. placed are their indices among the rows that the
// estimator has projected; nil before the first metric.
func (l *model) offerToPool(b pool.Batch, placed []int) (entered int) {
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

// updateMetric is the M-step for the current C_L and C_G: a split when one is due, and otherwise the best B_L
// within its span. share is the share of new rows in C_L.
func (l *model) updateMetric(share float64) (found bool, err error) {
	if m := l.metric; m != nil {
		m.pending += share
		m.minibatches++
		due := !l.family.unconfined() || l.due(m)
		if !due && l.moments.vary(m.Active) && m.updateSpan(l.work) {
			return false, nil
		}
	}
	return true, l.findSplit(l.previousParzen())
}

// due reports whether enough rows have come since a split for what it costs most to find to be found again.
func (l *model) due(m *metricState) bool {
	most := splitShare
	if l.cfg.grows(l.since, l.gap) {
		most = youngShare
	}
	return m.pending >= most || m.minibatches >= splitMinibatches
}

// findSplit brings C_L up to date and finds the split for it and the current C_G; previous is as in family.next.
func (l *model) findSplit(previous int) error {
	next, d := l.spare, l.cfg.Dim
	if next == nil {
		next = new(metricState)
	}
	l.moments.scaleInto(&next.ColumnScale, l.cfg.NuUnit)
	if len(next.Active) == 0 {
		return fmt.Errorf("lca: every column became constant (%d)", d)
	}
	next.alone, next.frame = l.cfg.alone(previous), 0
	if was := l.metric; was != nil && !next.alone {
		was.fold(l.cl, d, l.work)
		enter(l.cl, d, was.Active, next.Active, l.moments.cov)
	}
	if next.alone {
		if err := next.factorGlobal(l, l.shrinkage(previous)); err != nil {
			return err
		}
		for k, v := range l.moments.full() {
			l.cl[k] = localOfGlobal * v
		}
		next.gaussianAlone(l.work)
	} else if err := l.family.next(l, next, previous); err != nil {
		return err
	}
	next.startSpan(l)
	l.metric, l.spare = next, l.metric
	return nil
}

// addNu sets dst to the active rows and columns of a dim×dim covariance, with ν s² on the diagonal or ν C_G.
func (l *model) addNu(dst []float64, f *prop1.ColumnScale, a []float64, nu float64) []float64 {
	if l.cfg.NuUnit != lca.UnitCovariance {
		return f.Sub(dst, a, l.cfg.Dim, nu)
	}
	dst = f.Sub(dst, a, l.cfg.Dim, 0)
	l.global = f.Sub(l.global, l.moments.full(), l.cfg.Dim, 0)
	return prop1.AddCovariance(dst, l.global, len(f.Active), nu)
}

// previousParzen returns the current d_P, or Auto before the first split.
func (l *model) previousParzen() int {
	if l.metric == nil || !l.split {
		return lca.Auto
	}
	return l.metric.parzen
}

// splitAfter returns the rule by which d_P follows a previous one, or Auto.
func (l *model) splitAfter(previous int) func(e []float64) int {
	if l.cfg.Kind == lca.KindLCA {
		return allParzen
	}
	return func(e []float64) int {
		return parzenWithHysteresis(e, previous, float64(l.pool.Len())/float64(l.cfg.Neighbours))
	}
}

// diagonalWithNu is the diagonal of addNu.
func (l *model) diagonalWithNu(dst []float64, f *prop1.ColumnScale, a []float64, nu float64) []float64 {
	dst = linalg.Resize(dst, len(f.Active))
	for i, k := range f.Active {
		v, global := a[k*(l.cfg.Dim+1)], l.moments.cov[k*(l.cfg.Dim+1)]
		if l.cfg.NuUnit == lca.UnitCovariance {
			v += float64(nu * global)
			dst[i] = v + float64(prop1.RoundingRidge*global)
		} else {
			dst[i] = v + float64(float64(nu*f.Scale[i])*f.Scale[i])
		}
	}
	return dst
}

func allParzen(e []float64) int { return len(e) }

// begin makes a candidate current.
func (l *model) begin(c candidate) error {
	l.use(c.recipe)
	l.cl, l.spare = slices.Clone(c.cl), nil
	return l.findFirstSplit(c.parzen)
}

// findFirstSplit sets the metric that follows from the rest of a regime, and from the d_P that it had.
func (l *model) findFirstSplit(parzen int) error {
	l.metric, l.split = nil, true
	enter(l.cl, l.cfg.Dim, varying(l.cl, l.cfg.Dim), l.moments.columnScale(l.cfg.NuUnit).Active, l.moments.cov)
	return l.findSplit(parzen)
}

// sums is the E-step of rows without Ĉ_L, and their −log p by the columns that vary, NaN for one without a neighbour.
func (l *model) sums(b pool.Batch) (m *kernel.Moments, scores []float64) {
	l.estimator.load(l.pool, l.metric, l.work)
	l.estimator.project(b.X, l.moments.mean)
	ex := l.exclusion(b)
	ex.Sums = true
	m = l.estimator.update(ex)
	return m, l.densities(m)
}

// score returns −log p of rows under the current metric, NaN for one without a neighbour.
func (l *model) score(b pool.Batch) []float64 {
	_, scores := l.sums(b)
	for i, nats := range l.estimator.departures() {
		scores[i] += nats
	}
	return scores
}

// densities returns −log p of the rows of the last update that were used, NaN for the others; until the
// next call.
func (l *model) densities(m *kernel.Moments) []float64 {
	half := l.estimator.halfSquares()
	l.density = linalg.Resize(l.density, len(m.Used))
	constant := 0.5*float64(len(l.metric.Active))*math.Log(2*math.Pi) + l.cfg.shape().Excess(l.metric.parzen) - l.metric.logVolume()
	for i, used := range m.Used {
		if l.density[i] = math.NaN(); used {
			l.density[i] = half[i] + constant - (m.LSE(i) - math.Log(float64(m.Admissible[i])))
		}
	}
	return l.density
}

// mahalanobis returns (x_i−μ)ᵀ (C_G + ν_g)⁻¹ (x_i−μ) for any family of metrics, even if B has nothing to do with C_G.
// The sparse columns of without are left out; counted is the number of columns that were not. The squares are valid
// until the next call.
func (l *model) mahalanobis(x []float64, without []prop1.Sparse) (squares []float64, counted int) {
	m, d := l.metric, l.cfg.Dim
	l.single = linalg.Resize(l.single, len(x)/d)
	dst, n := l.single, len(m.Active)
	m.scratch[0] = linalg.Resize(m.scratch[0], len(dst)*n)
	y := m.scratch[0]
	for i := range dst {
		to, from := y[i*n:][:n], x[i*d:][:d]
		for j, k := range m.Active {
			to[j] = from[k] - l.moments.mean[k]
		}
	}
	counted = n
	for j, k := range m.Active {
		if slices.ContainsFunc(without, func(s prop1.Sparse) bool { return s.Column == k }) {
			for i := range dst {
				y[i*n+j] = 0
			}
			counted--
		}
	}
	l.work.SolveRight(linalg.Dense(m.gaussian, n), y, n, n, len(dst))
	for i := range dst {
		dst[i] = kernel.NormSquared(y[i*n : (i+1)*n])
	}
	return dst, counted
}

// independent returns how many independent rows that number of rows stands for.
func (l *model) independent(rows int) float64 {
	if g := l.gap; g > 1 {
		return min(float64(rows), float64(max(l.since, uint64(l.pool.Len())))/float64(g))
	}
	return float64(rows)
}

// reviseGap computes the time gap again, from rows that were learnt.
func (l *model) reviseGap(b pool.Batch) {
	l.dependence.Measure(b, l.cfg.Dim)
	l.gap = l.dependence.Gap(l.gap, l.cfg.Neighbours, l.cfg.Finite)
}
