package online

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

const (
	outlierDistance = 10 // standard deviations, in the root mean square over all directions
	manyRows        = 0.10
	grownRows       = 1000 // rows from which on a stream is no longer young: a column that has not moved is constant, where of fewer rows it may be one that moves seldom; and series count the same
)

// The gate keeps outliers out of Ĉ_L, μ, C_G and the pool; they are scored and counted. A row gives its nearest
// neighbour weight 1 however far away it is, so one row in a thousand at 30 standard deviations would
// determine C_L by itself. An outlier is a row whose score −log p is beyond all that the pool's own rows lead one to
// expect (scoregate.go). It may be the first row of a new cluster: held.go.
//
// With columns that are constant except for one row in a hundred, as the corners of pictures are, the scores of the
// hundredth have no bound: the kernel is as narrow as the ninety-nine. Where there are such columns
// (prop1.Sparse), an outlier is a row with
//
//	(x−μ)ᵀ (C_G + ν_g)⁻¹ (x−μ) > 100 d
//
// over the other columns: ten standard deviations in the root mean square over all directions.
//
// Whatever the gate, unless it is off, a row in which a column differs that has been constant is one too (moved). If it were learnt, its one number would
// set the column's variance, and the next ones would hide behind it. Such rows are held like the others, so that a column that moves now and then is
// learnt when many have come, and many at once are a change like any other.
//
// Config.OutlierGate is a gate in kernel widths instead: the squared distance to the nearest neighbour, and that to μ over the Gaussian directions
// (gaussianGate).
// It is for scores against a known good period with Drift off, so that no fault is learnt. It reinforces itself:
// rows that never enter Ĉ_L make the kernel narrower, and so rows like them even farther away. See watch.Refusals.

// rowGate says which rows are learnt.
type rowGate struct {
	model
	held pool.Batch // rows that were refused (held.go)
}

// inliers returns the rows that are no outliers by C_G, where that is the gate, and in which no constant column has moved. It leaves them projected in the
// estimator.
func (l *rowGate) inliers(b pool.Batch) pool.Batch {
	l.estimator.project(b.X, l.moments.mean)
	departed, byGlobal := l.departed(), l.cfg.OutlierGate == lca.Auto && !l.usesScores()
	l.moved = l.moved[:0]
	if departed == nil && !byGlobal {
		return b
	}
	var squares []float64
	counted := 0
	if byGlobal {
		squares, counted = l.mahalanobis(b.X, l.moments.sparse)
	}
	l.kept = l.kept[:0]
	for i := range b.IDs {
		switch {
		case departed != nil && departed[i] > 0:
			l.moved = append(l.moved, i)
		case !byGlobal || !isOutlier(squares[i], counted):
			l.kept = append(l.kept, i)
		}
	}
	if len(l.kept) == b.Len() {
		return b
	}
	b = l.inside.Pick(b, l.kept, l.cfg.Dim)
	l.estimator.project(b.X, l.moments.mean)
	return b
}

// departed returns by how much constant columns of the projected rows have moved, as the estimator has it; nil where such rows may be learnt.
func (l *rowGate) departed() []float64 {
	young := l.since < grownRows && l.cfg.Drift // without it the first rows have shown all that there is
	if young || math.IsInf(l.cfg.OutlierGate, 1) {
		return nil
	}
	return l.estimator.departures()
}

// isOutlier reports whether a squared Mahalanobis distance by C_G over that number of columns is an outlier's.
func isOutlier(square float64, columns int) bool {
	return square > outlierDistance*outlierDistance*float64(columns)
}

// opensGate reports whether the gate opens to a minibatch with that number of far rows. It does in a stream so young
// that its first rows may not have shown every cluster. It does not
// where a change must last longer than a warm-up (driftRows): there the first rows are the reference, and what is far
// from them is anomalous. With Drift off it never opens.
func (l *rowGate) opensGate(far, rows int) bool {
	if !l.cfg.Drift || !tooManyFar(far, rows) {
		return false
	}
	return l.drift.young() && l.cfg.driftRows() <= l.cfg.warmupRows()
}

// countFar marks the rows of the last E-step that the gate refuses, and counts them. Where a gate by C_G has refused rows before, or there is none, it marks those that
// are far from all neighbours.
func (l *rowGate) countFar(b pool.Batch, m *kernel.Moments) (rows int) {
	if l.usesScores() {
		return l.refuse(b, m)
	}
	limit, global := kernel.FarLimit(l.metric.parzen), math.Inf(1)
	if l.gatesByDistance() {
		limit, global = l.cfg.OutlierGate, l.gaussianGate()
	}
	l.beyond = append(l.beyond[:0], make([]bool, b.Len())...)
	for i, half := range l.estimator.halfSquares() {
		if m.Admissible[i] > 0 && m.Nearest[i] > limit || 2*half > global {
			l.beyond[i] = true
			rows++
		}
	}
	return rows
}

// gatesByDistance reports whether a number is the gate.
func (l *model) gatesByDistance() bool {
	return l.cfg.OutlierGate != lca.Auto && !math.IsInf(l.cfg.OutlierGate, 1)
}

// gaussianGate returns the squared distance from μ over the Gaussian directions beyond which a row is not learnt. Kernel distance is one over the Parzen
// directions, and says nothing of the others, which may be all. A normal row is as far as there are directions, and must not be refused for it: of Gaussian rows with eight, one in 2000 is beyond driftAlarm standard deviations.
func (l *rowGate) gaussianGate() float64 {
	directions := float64(len(l.metric.Active) - l.metric.parzen)
	return max(l.cfg.OutlierGate, directions+driftAlarm*math.Sqrt(2*directions))
}

// tooManyFar reports whether that number of far rows is too large for outliers.
func tooManyFar(far, rows int) bool { return float64(far) > manyRows*float64(rows) }

// Squares of larger numbers overflow on the way to a covariance. A row with one is scored but never learnt.
const absurd = 1e140

// check refuses a minibatch that cannot be learnt, before any state changes. It returns its rows, row-major. With series, rows may have nulls.
func (s *space) check(dim int, x *mat.Dense, ids []uint64, partitions []int32, series []uint64) (rows []float64, err error) {
	n, d := x.Dims()
	switch {
	case d != dim:
		return nil, fmt.Errorf("lca: minibatch has %d columns, the learner %d: start a new model for other features", d, dim)
	case ids != nil && len(ids) != n:
		return nil, fmt.Errorf("lca: minibatch has %d rows and %d identities", n, len(ids))
	case partitions != nil && len(partitions) != n:
		return nil, fmt.Errorf("lca: minibatch has %d rows and %d partitions", n, len(partitions))
	case series != nil && len(series) != n:
		return nil, fmt.Errorf("lca: minibatch has %d rows and %d series", n, len(series))
	}
	raw := x.RawMatrix()
	rows = raw.Data[:n*d]
	if raw.Stride != d {
		s.rows = s.rows[:0]
		for i := range n {
			s.rows = append(s.rows, x.RawRowView(i)...)
		}
		rows = s.rows
	}
	if largest(rows) < math.Inf(1) {
		return rows, nil
	}
	for i, v := range rows {
		if v-v != 0 && (v == v || series == nil) { // NaN or an infinity
			return nil, fmt.Errorf("lca: minibatch row %d, column %d is %v: leave such rows out", i/d, i%d, v)
		}
	}
	return rows, nil
}

// sanitise returns the rows without nulls whose squares do not overflow, with their identities and places; without ids it makes some.
func (l *Learner) sanitise(rows []float64, ids []uint64, partitions []int32, s *Step) pool.Batch {
	d := l.cfg.Dim
	n := len(rows) / d
	s.Rows = n
	if ids == nil {
		l.ids = linalg.Resize(l.ids, n)
		for i := range n {
			l.ids[i] = pool.Mix(l.counts.Rows + uint64(i))
		}
		ids = l.ids
	}
	l.places, l.kept = linalg.Resize(l.places, n), l.kept[:0]
	usual := largest(rows) <= absurd
	for i := range n {
		if !usual {
			most := largest(rows[i*d : (i+1)*d])
			if math.IsNaN(most) { // it is as if the row were not there
				s.Rows--
				continue
			}
			if most <= absurd {
				l.kept = append(l.kept, i)
			}
		}
		partition := int32(0)
		if partitions != nil {
			partition = partitions[i]
		}
		l.places[i] = l.clocks.Next(partition)
	}
	b := pool.Batch{X: rows, IDs: ids, Places: l.places}
	if usual {
		return b
	}
	s.Gated = s.Rows - len(l.kept)
	return new(pool.Batch).Pick(b, l.kept, d)
}

// largest returns the largest magnitude of some numbers, NaN if one of them is.
func largest(x []float64) float64 { return math.Float64frombits(kernel.MaxAbs(x)) }

// judgement is a minibatch under the metric before it is learnt.
type judgement struct {
	all, inside pool.Batch      // all its rows; those that a gate by C_G lets pass
	moments     *kernel.Moments // the E-step of those
	far         int             // rows that are far from what was learnt
}

// judge runs the E-step of a minibatch under the current metric, which must be loaded, and sets the prequential figures of s.
func (l *rowGate) judge(all pool.Batch, s *Step) judgement {
	l.closed = false
	b := l.inliers(all)
	m := l.estimator.update(l.exclusion(b))
	far := all.Len() - b.Len() + l.countFar(b, m)
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

// dropGated returns the rows that the gate let pass, and their E-step.
func (l *rowGate) dropGated(b pool.Batch, m *kernel.Moments) (pool.Batch, *kernel.Moments) {
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
		return b, m
	}
	return b, l.again(b)
}
