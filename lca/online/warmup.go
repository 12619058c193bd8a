package online

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/timegap"
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
	if c.wide() {
		return c.Dim + wideSpare
	}
	return c.usualWarmup()
}

// usualWarmup is warmupRows of rows that are not wide (wide.go).
func (c Config) usualWarmup() int {
	rows := max(warmupColumns*c.Dim, warmupRows)
	if c.Preset == lca.PresetDensity {
		rows *= warmupDensity
	}
	return rows
}

// warmup collects rows for a metric.
type warmup struct {
	choices
	warm   pool.Batch // the first rows, or those in quarantine (restart.go)
	slow   uint64     // time gap of the slowest column of the first rows; not part of the state
	wanted int        // rows that a first model takes, or any, where a set ended before it had one; 0: none did
}

// warmUp collects a minibatch, and computes the first metric when there are enough rows that vary.
func (l *warmup) warmUp(b pool.Batch, s Step) (Step, error) {
	s.Warmup = true
	d := l.cfg.Dim
	w := &l.warm
	w.Append(b)
	if off := w.EqualFirst(d); off < w.Len() && float64(off) > warmupOff*float64(l.cfg.warmupRows()) {
		w.Forget(off, d)
	}
	if l.cfg.WarmupRows == lca.Auto {
		l.reviseGap(*w)
		l.slow = l.slowestOfWarmup()
	}
	want := l.warmupWanted()
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
	l.warm, l.slow = pool.Batch{}, 0
	return l.initialise(first, s)
}

// initialise fits the first rows without outliers.
func (l *warmup) initialise(b pool.Batch, s Step) (Step, error) {
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
func (l *warmup) begun(s Step, inside, out int) (Step, error) {
	l.counts.Gated += uint64(out)
	l.renewEstimator()
	if !l.split {
		l.counts.Learnt += uint64(inside)
		return s, nil
	}
	l.counts.Learnt += uint64(s.Learnt)
	l.since += uint64(s.Learnt)
	l.counts.Minibatches++
	return s, l.aligned.advance(&l.model)
}

// fitInside fits rows, and again without those that the gate then refuses, until there are none: rows far from
// all others would otherwise set C_G by themselves for as long as they stay in the pool. A tail that belongs
// passes the gate (scoregate.go). It returns the rows that were fitted, and how many the first update used.
//
// Where their scores say little (knowsScores), a row stays in unless it is also an outlier by the C_G of the others. By a
// C_G that it has itself made wide it would hardly be one.
func (l *rowGate) fitInside(all pool.Batch, s *Step) (b pool.Batch, used int, err error) {
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
	for i, v := range l.family.mahalanobis(&l.model, all.X) {
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
func (l *model) fitFirst(b pool.Batch, s *Step) (used int, err error) {
	d := l.cfg.Dim
	l.moments, l.pool = newRunningMoments(l.cfg.momentsMemory(), d), pool.New(l.cfg.Neighbours, d)
	l.moments.start(b.X, l.work)
	l.longest = longestRests(b, d)
	s.Entered = l.offerToPool(b, nil)
	s.Pool = l.pool.Len()
	if err := l.startFromGlobal(); err != nil {
		return 0, err
	}
	s.Ridged, s.Parzen = l.metric.ridged, l.metric.parzen
	if !l.worthReplaying(b.Len()) {
		return 0, nil
	}
	return l.convergeOnPool(context.Background(), b, s)
}

// startFromGlobal sets C_L = C_G, and the metric that follows from it.
func (l *model) startFromGlobal() error {
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
func (l *model) initMetric() error {
	m := &metricState{ColumnScale: l.moments.columnScale(l.cfg.NuUnit)}
	if err := m.factorGlobal(l, 0); err != nil {
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

// Waiting describes the progress of the warm-up.
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
		w.Gap = l.slow
	}
	w.Constant = w.Rows >= w.Wanted // warmUp has tried
	return w, true
}

// warmupWanted returns how many rows the warm-up collects: more than the configuration says in a stream in which
// several rows in a row are hardly more than one, in any column.
func (l *warmup) warmupWanted() int {
	want := l.cfg.warmupRows()
	if l.cfg.WarmupRows == lca.Auto {
		want = timegap.Stretched(want, l.slow, l.cfg.Neighbours)
	}
	return want
}

// slowestOfWarmup returns the time gap of the slowest column of the rows collected, as they were measured last. A finite set that has no gap may be sorted.
func (l *warmup) slowestOfWarmup() uint64 {
	if l.cfg.Finite && l.gap == 0 {
		return 0
	}
	return l.dependence.Slowest(l.cfg.Neighbours)
}
