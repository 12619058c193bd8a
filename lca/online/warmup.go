package online

import (
	"errors"
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

const (
	warmupColumns = 4   // rows per column: with 2 the start is tolerable, with 1 it is singular
	warmupRows    = 200 // at least
	// The density preset warms up on this multiple of the rows: they define what later counts as an
	// outlier, and consecutive rows are more alike than random ones.
	warmupDensity = 2
	// A row is left out if one of its columns is this many robust standard deviations from the median: next to it all
	// others would be copies of each other. That is far beyond any tail that should be learnt: afterwards the
	// gate decides.
	warmupOutlier = 1000
	// First rows that are all equal, as of a machine that is off, are left out when others follow and they are more than this share of a warm-up.
	// Otherwise what follows would be the change.
	warmupOff = 0.25
	// The first fit is repeated without the rows that its gate refuses, at most this number of times.
	trimRounds = 5
)

// The warm-up collects the first rows: they give the scales, μ, C_G, the first pool and, as C_L = C_G,
// the first metric. Rows that are absurdly far are sorted out beforehand, by the median and the median absolute
// deviation of each column.

// warmupRows returns how many rows are collected.
func (c Config) warmupRows() int {
	if c.WarmupRows != lca.Auto {
		return c.WarmupRows
	}
	rows := max(warmupColumns*c.Dim, warmupRows)
	if c.Preset == lca.PresetDensity {
		rows *= warmupDensity
	}
	return rows
}

// warmUp collects a minibatch, and computes the first metric when there are enough rows that vary.
func (l *Learner) warmUp(b pool.Batch, s Step) (Step, error) {
	s.Warmup = true
	d := l.cfg.Dim
	w := &l.warm
	w.Append(b)
	if l.gap.learn(b, d); l.cfg.WarmupRows == lca.Auto {
		l.gap.revise()
	}
	want := l.warmupWanted()
	if off := w.EqualFirst(d); off < w.Len() && float64(off) > warmupOff*float64(l.cfg.warmupRows()) {
		w.Forget(off, d)
	}
	if w.Len() < want {
		l.counts.Gated += uint64(s.Gated)
		return s, nil
	}
	kept := screen(w.X, d)
	first := new(pool.Batch).Pick(*w, kept, d)
	l.moments.start(first.X, l.work)
	if f := l.moments.columnScale(l.cfg.NuUnit); len(f.Active) == 0 { // nothing moves yet: keep the newest rows
		w.Forget(w.Len()-want, d)
		return s, nil
	}
	s.Gated += w.Len() - len(kept)
	l.counts.Gated += uint64(s.Gated)
	l.warm = pool.Batch{}
	return l.initialise(first, s)
}

// initialise fits the first rows without outliers.
func (l *Learner) initialise(b pool.Batch, s Step) (Step, error) {
	inside, used, err := l.fitInside(b, &s)
	if err != nil {
		return Step{}, err
	}
	out := b.Len() - inside.Len()
	s.Gated, s.Learnt = s.Gated+out, used
	if err := l.chooseBeginning(inside.Len(), &s); err != nil {
		return Step{}, err
	}
	return l.begun(s, inside.Len(), out)
}

// begun counts the rows of a first fit, and those that were left out. Where they were too few for an update of C_L, they are learnt in μ, C_G and the pool.
func (l *Learner) begun(s Step, inside, out int) (Step, error) {
	l.counts.Gated += uint64(out)
	l.renewEstimator()
	if !l.split {
		l.counts.Learnt += uint64(inside)
		return s, nil
	}
	l.counts.Learnt += uint64(s.Learnt)
	l.counts.Since += uint64(s.Learnt)
	l.counts.Minibatches++
	return s, l.aligned.advance(l)
}

// fitInside fits rows, and again without those that the gate then refuses, until there are none: rows far from
// all others would otherwise set C_G by themselves for as long as they stay in the pool. A tail that belongs
// passes the gate (scoregate.go). It returns the rows that were fitted, and how many the first update used.
//
// Where their scores say little (knowsScores), a row stays in unless it is also an outlier by the C_G of the others. By a
// C_G that it has itself made wide it would hardly be one.
func (l *Learner) fitInside(all pool.Batch, s *Step) (b pool.Batch, used int, err error) {
	b = all
	for range trimRounds {
		if used, err = l.fitFirst(b, s); err != nil {
			return b, 0, err
		}
		kept := l.insideGate(b)
		if len(kept) == b.Len() {
			break
		}
		b = new(pool.Batch).Pick(b, kept, l.cfg.Dim)
	}
	if b.Len() == all.Len() || l.knowsScores() {
		return b, used, nil
	}
	l.estimator.load(l.pool, l.metric, l.work)
	l.estimator.project(all.X, l.moments.mean)
	var inside []int
	for i, v := range l.family.mahalanobis(l, all.X) {
		if !isOutlier(v, len(l.metric.Active)) {
			inside = append(inside, i)
		}
	}
	if len(inside) > b.Len() {
		b = new(pool.Batch).Pick(all, inside, l.cfg.Dim)
		if used, err = l.fitFirst(b, s); err == nil {
			l.insideGate(b)
		}
	}
	return b, used, err
}

// fitFirst fills an empty pool and sets C_L = C_G, with all dimensions Parzen: Algorithm 1's start. The first update
// follows at once where the rows suffice for one; used is then how many were.
func (l *Learner) fitFirst(b pool.Batch, s *Step) (used int, err error) {
	d := l.cfg.Dim
	l.moments, l.pool = newRunningMoments(l.cfg.momentsMemory(), d), pool.New(l.cfg.Pool, l.cfg.Neighbours, d, l.cfg.Seed)
	l.moments.start(b.X, l.work)
	s.Entered = l.offerToPool(b, nil)
	s.Pool = l.pool.Len()
	if err := l.startFromGlobal(); err != nil {
		return 0, err
	}
	s.Ridged, s.Parzen = l.metric.ridged, l.metric.parzen
	if !l.worthReplaying(b.Len()) {
		return 0, nil
	}
	return l.convergeOnPool(b, s)
}

// startFromGlobal sets C_L = C_G, and the metric that follows from it.
func (l *Learner) startFromGlobal() error {
	f, cov, d := l.moments.columnScale(l.cfg.NuUnit), l.moments.full(), l.cfg.Dim
	clear(l.cl)
	for _, i := range f.Active {
		for _, j := range f.Active {
			l.cl[i*d+j] = cov[i*d+j]
		}
	}
	l.split = false
	return l.initMetric()
}

// initMetric sets the first metric from C_G: B_L B_Lᵀ = (C_G + ν_g)⁻¹ within the family of metrics.
func (l *Learner) initMetric() error {
	m := &metricState{ColumnScale: l.moments.columnScale(l.cfg.NuUnit)}
	if err := m.factorGlobal(l); err != nil {
		return fmt.Errorf("%w, of the warm-up rows", err)
	}
	if err := l.family.first(l, m, slices.Clone(l.m1)); err != nil {
		return fmt.Errorf("lca: the first metric, of the warm-up rows: %w", err)
	}
	m.startSpan(l)
	m.pending = math.Inf(1) // C_L is without ν here
	l.metric = m
	return nil
}

// screen returns the rows that are not absurdly far from the median in any column; all of them
// where more than a tenth would be left out, since that is then how the data is.
func screen(rows []float64, d int) []int {
	n := len(rows) / d
	far, column, deviation := make([]bool, n), make([]float64, n), make([]float64, n)
	for k := range d {
		centre, spread := prop1.Spread(column, deviation, rows, k, d)
		for i := range n {
			far[i] = far[i] || (spread > 0 && math.Abs(rows[i*d+k]-centre) > warmupOutlier*spread)
		}
	}
	all, kept := make([]int, n), make([]int, 0, n)
	for i := range n {
		all[i] = i
		if !far[i] {
			kept = append(kept, i)
		}
	}
	if tooManyFar(n-len(kept), n) {
		return all
	}
	return kept
}

// A set may end before it has as many rows as a stream warms up on, or as many as EM needs: 3000 where rows are alike for long, and twenty per column. Waiting
// does not help then. So its model is of the rows that there are. Of few per column it is a single Gaussian with
//
//	(1−a) C_G + a diag(C_G)
//
// where a makes the rows most likely, each without its own part in μ and C_G: directions in which they hardly vary may be chance, or the relation
// between columns that a fault breaks, and only the rows left out can tell.

// spareRows is by how many rows a set must exceed the columns that vary.
const spareRows = 2

// shrinkages are the a that are tried.
var shrinkages = [...]float64{0, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1}

// endWarmup fits the rows of a set that has ended in its warm-up, unless there are too few to tell anything. few says that there is nothing to choose by them.
func (l *Learner) endWarmup() (few bool, err error) {
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
	if rows.Len() >= replayRowsPerColumn*active {
		if _, err := l.initialise(rows, Step{}); err != nil || l.split {
			return false, err
		}
		rows = l.pool.Batch()
	}
	return true, l.fitFew(rows)
}

// fitFew makes a single Gaussian of few rows.
func (l *Learner) fitFew(b pool.Batch) error {
	if _, err := l.fitFirst(b, new(Step)); err != nil {
		return err
	}
	l.shrink(b)
	if err := l.begin(candidate{recipe: l.settings, cl: l.moments.full()}); err != nil {
		return err
	}
	l.insideGate(b)
	_, err := l.begun(Step{Learnt: b.Len()}, b.Len(), 0)
	return err
}

// shrink chooses a, and sets C_G to what is left of it.
func (l *Learner) shrink(b pool.Batch) {
	f, d := l.moments.columnScale(l.cfg.NuUnit), l.cfg.Dim
	n := len(f.Active)
	whole := f.Sub(nil, l.moments.full(), d, 0)
	centred := make([]float64, b.Len()*n)
	for i := range b.IDs {
		for j, k := range f.Active {
			centred[i*n+j] = b.X[i*d+k] - l.moments.mean[k]
		}
	}
	best, least := 1.0, math.Inf(1)
	for _, a := range shrinkages {
		if nll := l.withoutEach(shrunk(whole, n, a), centred, n, 1-a); nll < least {
			best, least = a, nll
		}
	}
	for i, row := range f.Active {
		for j, column := range f.Active {
			if i != j {
				l.moments.cov[row*d+column] = (1 - best) * whole[i*n+j]
			}
		}
	}
}

// shrunk returns (1−a) C + a diag(C).
func shrunk(c []float64, n int, a float64) []float64 {
	out := make([]float64, n*n)
	for i := range n {
		for j := range n {
			if out[i*n+j] = (1 - a) * c[i*n+j]; i == j {
				out[i*n+j] = c[i*n+j]
			}
		}
	}
	return out
}

// withoutEach returns the mean over the rows, less the mean, of −log of a Gaussian's density without what does not depend on a, each without its own part in μ and
// in that share of the covariance C. With w the weight of a row and q its square by C⁻¹, by Sherman and Morrison
//
//	Q = q / ((1−w)² (1 − share w q)),   log det = log det C + log(1 − share w q)
//
// Rows that are near in time count as independent. Were they fewer, nearly all series of some hundred rows would have a = 1.
func (l *Learner) withoutEach(c, centred []float64, n int, share float64) float64 {
	low := make([]float64, n*n)
	if ridged, err := prop1.Factor(low, c, n, l.work); ridged || err != nil {
		return math.Inf(1)
	}
	y, rows := append([]float64(nil), centred...), len(centred)/n
	l.work.SolveRight(linalg.Dense(low, n), y, n, n, rows)
	sum, w := 0.0, 1/float64(rows)
	for i := range rows {
		q := kernel.NormSquared(y[i*n : (i+1)*n])
		own := max(1-share*w*q, 1e-9)
		sum += 0.5*q/((1-w)*(1-w)*own) + 0.5*math.Log(own)
	}
	return sum/float64(rows) + prop1.LogDiagonal(low, n)
}

// leastOthers bounds the share of a direction that belongs to the other rows.
const leastOthers = 0.25

// chooseBeginning lets a stream, or a regime after a restart, begin with t kernels, or as a single Gaussian, if that explains the rows of the warm-up better than the first
// fit, each row without its own part in it. Kernels are fitted to these rows, and that no row is a neighbour of itself does not undo this: so each number
// in C_L that they have for themselves costs a nat, as Akaike has it. Gaussian kernels of a few hundred rows may be half a nat worse than a single
// Gaussian where there is little structure, or many columns, and tens of nats worse than t kernels where tails are heavy; and
// the first comparison (choice.go) takes effect only when there are nearly twice as many rows. It can take any of them again. Rows that are too
// few for a first fit (worthReplaying) can still make a single Gaussian. What was tried is recorded as that of any other choice. The first fit is of that many rows.
func (l *Learner) chooseBeginning(inside int, s *Step) error {
	if !l.free.kernel && !l.free.gaussian || l.cfg.OutlierGate != lca.Auto { // a gate in kernel widths needs its kernels
		return nil
	}
	rows, first := l.pool.Batch(), l.regime
	was := slices.Clone(l.score(rows))
	tried := lca.Choice{Rows: uint64(rows.Len())}
	best, least := first, math.Inf(1)
	consider := func(name string, scores []float64) {
		r, v := l.settings, meanOf(scores)+l.ownNumbers()/l.independent(l.pool.Len())
		if tried.Candidates = append(tried.Candidates, lca.Trial{Name: name, Parzen: l.metric.parzen, Nu: r.nu, NuUnit: r.unit, Kernel: r.kernel, NLL: v}); v < least {
			best, least, tried.Taken = l.regime, v, len(tried.Candidates)-1
		}
	}
	consider(lca.FirstFit, was)
	if r := first.settings; first.split && l.free.kernel && r.kernel == lca.KernelGaussian {
		r.kernel, r.dof = lca.KernelStudent.Resolve(l.asked.DOF)
		if err := l.begin(candidate{r, len(l.metric.Active), l.moments.full()}); err != nil {
			return err
		}
		if _, err := l.convergeOnPool(rows, s); err != nil {
			return err
		}
		consider(r.String(), l.score(rows))
	}
	if l.free.gaussian {
		if err := l.begin(candidate{first.settings, 0, first.cl}); err != nil {
			return err
		}
		l.score(rows)
		consider("gaussian", l.scoresWithoutOwn())
	}
	if l.setRegime(best); l.split && !first.split { // as a single Gaussian
		s.Learnt = inside
	}
	if len(tried.Candidates) > 1 {
		l.chosen, s.Choice = tried, &tried
	}
	s.Gaussian, s.Parzen = len(l.metric.Active)-l.metric.parzen, l.metric.parzen
	l.insideGate(new(pool.Batch).Sample(rows, gateRows, int(l.gate.turn), l.cfg.Dim))
	return nil
}

// ownNumbers returns how many numbers of C_L the Parzen directions have for themselves.
func (l *Learner) ownNumbers() float64 {
	p, d := l.metric.parzen, len(l.metric.Active)
	return float64(p*(p+1)/2 + p*(d-p))
}

// scoresWithoutOwn returns the scores of the last rows under a single Gaussian as they would be if each row had had no part in μ and C_G.
func (l *Learner) scoresWithoutOwn() []float64 {
	out, half := slices.Clone(l.density), l.estimator.halfSquares()
	w, d := 1/l.moments.independent(l.gap.rows), float64(len(l.metric.Active))
	for i := range out {
		out[i] += ownPart(half[i], w, d)
	}
	return out
}

// ownPart returns by how much −log p of a row rises in d Gaussian directions when it has no part in μ and C_G, where its weight is w. With
// q = (x−μ)ᵀ C⁻¹ (x−μ), and Q and C' the same without its part, by Sherman and Morrison
//
//	Q = q / (1 − w − w q),   log det C' = log det C − d log(1−w) − log(1 + w Q)
func ownPart(half, w, d float64) float64 {
	others := half / max(1-w-2*w*half, leastOthers)
	return others - half - 0.5*d*math.Log1p(-w) - 0.5*math.Log1p(2*w*others)
}

// WarmStart makes the model what has been learnt so far, so that a stream goes on from a snapshot
// without its learner's state: μ, C_G, C_L, the pool, the memory n and what scores the last rows are the model's, and series begin. The learner
// must be fresh. Of a model that is Young, that is what scores the last rows and no more. Near copies take care of rows that the snapshot's pool holds and that come again,
// since a snapshot knows no identities.
func (l *Learner) WarmStart(m *lca.Model) error {
	d := l.cfg.Dim
	switch {
	case m.Dim != d:
		return fmt.Errorf("lca: warm start: model of %d columns, learner of %d", m.Dim, d)
	case l.counts.Rows > 0:
		return errors.New("lca: warm start: the learner has learnt already: make a new one")
	case m.Young():
		if l.counts.Rows = m.Info.Rows; l.recent.learner != nil {
			l.recent.learner = recent.Resume(m.Recent)
		}
		return nil
	case len(m.Neighbours) < d*2 || len(m.Neighbours)%d != 0:
		return errors.New("lca: warm start: the model has no neighbours: import its neighbours part too")
	}
	n := len(m.Neighbours) / d
	b := pool.Batch{X: make([]float64, len(m.Neighbours)), IDs: make([]uint64, n), Places: make([]pool.Place, n)}
	for k, v := range m.Neighbours {
		b.X[k] = m.Mean[k%d] + float64(v)
	}
	for i := range n {
		b.IDs[i] = pool.Mix(pool.Mix(m.Info.Rows) + uint64(i))
		b.Places[i].Partition = pool.NoPartition
	}
	next, err := NewLearner(l.asked)
	if err != nil {
		return err
	}
	next.offerToPool(b, nil)
	copy(next.moments.mean, m.Mean)
	cl, cg := withoutNu(m)
	copy(next.moments.cov, cg)
	next.moments.count = min(math.Max(float64(m.Info.Learnt), 1), next.moments.memory)
	active := next.moments.columnScale(l.cfg.NuUnit).Active
	if len(active) == 0 {
		return errors.New("lca: warm start: all columns of the model's neighbours are constant")
	}
	copy(next.cl, cl)
	enter(next.cl, d, varying(next.cl, d), active, next.moments.cov)
	next.counts = counts{
		Rows: m.Info.Rows, Learnt: m.Info.Learnt, Alarms: m.Info.Alarms, Gated: m.Info.Gated, Copies: m.Info.Copies,
		Since: uint64(m.Info.PassRows / growthShare), Minibatches: 1,
	}
	if _, err := next.updateMetric(1); err != nil {
		return fmt.Errorf("lca: warm start: %w", err)
	}
	next.split = true
	if next.recent.learner != nil && m.Recent != nil && m.Recent.Dim == d {
		next.recent.learner = recent.Resume(m.Recent)
	}
	if m.Coordinates == lca.CoordinatesAligned && m.Components == lca.ComponentsAll {
		next.aligned.w, next.aligned.parzen = linalg.Elements(m.W), linalg.Elements(m.BL)
	}
	*l = *next
	return nil
}

// withoutNu returns C_L and C_G of a model without ν and ν_g. In the relative unit ν s² is on the diagonal, and s² is a
// column's variance, which the published C_G has with its own ν_g: C_G,kk = (1+ν_g) s². In absolute units s = 1.
func withoutNu(m *lca.Model) (cl, cg []float64) {
	i, d := m.Info, m.Dim
	cl, cg = linalg.Elements(m.CL), linalg.Elements(m.CG)
	if i.NuUnit == lca.UnitCovariance {
		return prop1.WithoutCovariance(cl, cg, d, i.Nu, i.NuGaussian)
	}
	for k := range d {
		square := cg[k*d+k] / (1 + i.NuGaussian)
		if i.NuUnit == lca.UnitAbsolute && square > 0 {
			square = 1
		}
		cl[k*d+k] -= i.Nu * square
		cg[k*d+k] -= i.NuGaussian * square
	}
	return cl, cg
}

// varying returns the columns of a covariance that have a variance.
func varying(c []float64, d int) (out []int) {
	for k := range d {
		if c[k*d+k] > 0 {
			out = append(out, k)
		}
	}
	return out
}
