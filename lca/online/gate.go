package online

import (
	"math"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

const (
	outlierDistance = 10 // standard deviations, in the root mean square over all directions
	farFloor        = 40 // squared kernel distance
	farDimension    = 10 // times d_P
	manyRows        = 0.10
)

// The gate keeps outliers out of Ĉ_L, μ, C_G and the pool; they are scored and counted. A far row has
// weight 1 on its nearest neighbour however far, so one row in a thousand at 30 standard deviations
// would set C_L by itself. An outlier is a row with
//
//	(x−μ)ᵀ (C_G + ν_g)⁻¹ (x−μ) > 100 d,
//
// which is ten standard deviations in the root mean square over all directions.
//
// It is measured by C_G and not in kernel widths, because that feeds on itself: rows that never enter
// Ĉ_L leave it the thinner for it, and themselves and their like the farther away. With columns that are
// constant but for one row in a hundred, as the corners of pictures are, a gate at 10·d_P kernel widths
// lets the kernel fall in on the ninety-nine, and the score of the hundredth is beyond all bounds. Nor do
// sparse columns count here (sparse.go).
//
// Config.OutlierGate is a gate in kernel widths instead: the squared distance to the nearest neighbour.
// That is for scores against a known good time with Drift off, so that no fault creeps in.
//
// The gate cannot tell an outlier from the first row of a new cluster: one that is rarer than a tenth of
// the rows, and that far from all others, stays outside.

// inliers returns the rows that are no outliers by C_G, in the estimator's coordinates too.
func (l *Learner) inliers(rows []float64, ids []uint64) ([]float64, []uint64) {
	l.estimator.project(rows, l.moments.mean)
	if l.cfg.OutlierGate != lca.Auto {
		return rows, ids
	}
	var squares []float64
	counted := len(l.metric.Active)
	if l.cfg.Metric == lca.MetricFull && len(l.moments.sparse) == 0 {
		squares = l.estimator.mahalanobis(&l.work)
	} else {
		l.single = linalg.Resize(l.single, len(ids))
		squares, counted = l.mahalanobis(l.single, rows, l.moments.sparse)
	}
	l.kept = l.kept[:0]
	for i, v := range squares {
		if v <= outlierDistance*outlierDistance*float64(counted) {
			l.kept = append(l.kept, i)
		}
	}
	if len(l.kept) == len(ids) {
		return rows, ids
	}
	rows, ids = l.inside.pick(rows, ids, l.kept, l.cfg.Dim)
	l.estimator.project(rows, l.moments.mean)
	return rows, ids
}

// kernelGate returns the squared kernel distance to the nearest neighbour beyond which a row is not learnt.
func (c Config) kernelGate() float64 {
	if c.OutlierGate == lca.Auto {
		return math.Inf(1)
	}
	return c.OutlierGate
}

// farLimit returns the squared kernel distance to the nearest neighbour from which on a row is far:
// max(40, 10·d_P). Where EM has converged the mean squared distance of
// a row to its neighbours, each with its λ, is at most d_P: that is what Σ = C_L says. To the nearest it is
// less, so by Markov's inequality no distribution whatever, however heavy its tails, has more than a tenth of
// its rows beyond 10·d_P. Where more of a minibatch are, the data are not those that were learnt: see restart.go.
func farLimit(parzen int) float64 { return math.Max(farFloor, farDimension*float64(parzen)) }

// opensGate says whether the gate opens to a minibatch with so many far rows. It does in a finite set, which
// is learnt whole, and in a stream so young that its first rows may not have shown all there is; but not
// where a change must last longer than a warm-up to be believed (driftRows): there the first rows are
// the reference, and what is far from them is strange. With Drift off it never opens.
func (l *Learner) opensGate(far, rows int) bool {
	if !l.cfg.Drift || !tooManyFar(far, rows) {
		return false
	}
	return l.cfg.Finite || l.drift.seen < driftSettle && l.cfg.driftRows() <= l.cfg.warmupRows()
}

// countFar returns how many rows of the last E-step are far from all neighbours, or beyond a narrower gate.
func (l *Learner) countFar(m *kernel.Moments) (rows int) {
	limit := math.Min(farLimit(l.metric.parzen), l.cfg.kernelGate())
	for i, nearest := range m.Nearest {
		if m.Admissible[i] > 0 && nearest > limit {
			rows++
		}
	}
	return rows
}

// tooManyFar says whether so many far rows are too many for outliers.
func tooManyFar(far, rows int) bool { return float64(far) > manyRows*float64(rows) }
