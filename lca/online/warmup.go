package online

import (
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

const (
	warmupColumns = 4   // rows per column: with 2 the start is tolerable, with 1 it is singular
	warmupRows    = 200 // at least
	// The density preset warms up on this multiple of the rows: they define what later counts as an
	// outlier, and consecutive rows are more alike than random ones.
	warmupDensity = 2
	// A row is left out if one of its columns is this many robust standard deviations from the median. That is
	// far beyond any tail that should be learnt: afterwards the gate decides.
	warmupOutlier = 20
)

// The warm-up collects the first rows: they give the scales, μ, C_G, the first pool and, as C_L = C_G,
// the first metric. There is no gate yet, so rows that are absurdly far are sorted out by the
// median and the median absolute deviation of each column: one row at 1000 standard deviations
// would otherwise set C_G by itself for as long as it stays in the pool.

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
func (l *Learner) warmUp(b batch, s Step) (Step, error) {
	s.Warmup = true
	d := l.cfg.Dim
	w, want := &l.warm, l.cfg.warmupRows()
	w.append(b)
	if l.gap.learn(b, d); l.cfg.WarmupRows == lca.Auto {
		l.gap.revise()
		want = l.gap.stretched(want, l.cfg.Neighbours)
	}
	if w.len() < want {
		l.counts.Gated += uint64(s.Gated)
		return s, nil
	}
	kept := screen(w.x, d)
	first := new(batch).pick(*w, kept, d)
	l.moments.start(first.x, &l.work)
	if f := l.moments.columnScale(l.cfg.NuUnit); len(f.Active) == 0 { // nothing moves yet: keep the newest rows
		w.forget(w.len()-want, d)
		return s, nil
	}
	s.Gated += w.len() - len(kept)
	l.counts.Gated += uint64(s.Gated)
	l.warm = batch{}
	return l.initialise(first, s)
}

// initialise fills the pool and sets C_L = C_G, with all dimensions Parzen: Algorithm 1's start. The first
// update follows at once where the rows suffice for one.
func (l *Learner) initialise(b batch, s Step) (Step, error) {
	s.Entered = l.offerToPool(b, nil)
	s.Pool = l.pool.len()
	f, cov := l.moments.columnScale(l.cfg.NuUnit), l.moments.full()
	for _, i := range f.Active {
		for _, j := range f.Active {
			l.cl[i*l.cfg.Dim+j] = cov[i*l.cfg.Dim+j]
		}
	}
	if err := l.initMetric(); err != nil {
		return Step{}, err
	}
	s.Ridged, s.Parzen = l.metric.ridged, l.metric.parzen
	if err := l.firstFit(b, &s); err != nil {
		return Step{}, err
	}
	return s, nil
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
