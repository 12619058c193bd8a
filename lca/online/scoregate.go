package online

import (
	"math"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/tail"
)

const (
	gateShare = 5e-4 // share of the pool's own rows that the gate would refuse
	gateRows  = 500  // rows of the pool whose scores set the gate, which is revised every alignEvery minibatches: that costs as much as five. As many tell a usual value (rests.go)
)

// scoreGate is the score −log p beyond which a row is not learnt: the (1 − 5·10⁻⁴) quantile of the leave-one-out scores
// of the pool's rows, by their tail. These are what a fresh row scores if it is like the pool's.
type scoreGate struct {
	limit float64 // +Inf: unknown, so that all rows pass
	turn  uint64  // revisions so far
}

// usesScores reports whether the gate is by scores.
func (l *model) usesScores() bool {
	return l.cfg.OutlierGate == lca.Auto && len(l.moments.sparse) == 0
}

// knowsScores reports whether the pool's rows are enough for their scores to say what a fresh row scores. They are left out
// of their own neighbours, but not of μ and C_G. Of few rows per column, each far one has a direction nearly to itself, and
// its score is far below that of a fresh row that is as far out. Copies of a row count once: with c pairs of copies for each
// row learnt, a pool that is not full has 1 + 2c of each. A full pool is as good as it will be.
func (l *rowGate) knowsScores() bool {
	if l.pool.Len() == l.cfg.Neighbours {
		return true
	}
	copies := float64(l.counts.Copies) / float64(max(1, l.counts.Learnt))
	return float64(l.pool.Len())/(1+2*copies) >= float64(rowsPerColumn*len(l.metric.Active))
}

// reviseGate computes the gate again from time to time.
func (l *rowGate) reviseGate() {
	if l.usesScores() && l.counts.Minibatches%alignEvery == 0 {
		l.setGate(l.inside.Sample(l.pool.Batch(), gateRows, int(l.gate.turn), l.cfg.Dim))
	}
}

// setGate computes the gate from the scores of rows that are in the pool, which it returns.
func (l *rowGate) setGate(b pool.Batch) []float64 {
	l.gate.turn++
	_, scores := l.sums(b)
	if l.cfg.wide() && l.metric.parzen == 0 {
		scores = l.scoresWithoutOwn()
	}
	l.sorted = l.sorted[:0]
	for _, v := range scores {
		if !math.IsNaN(v) {
			l.sorted = append(l.sorted, v)
		}
	}
	l.gate.limit = tail.Quantile(l.sorted, gateShare, l.independent(len(l.sorted)))
	return scores
}

// refuse marks the rows of the last E-step that are beyond the gate, and counts them. As long as the pool's scores say little, such a
// row must be an outlier by C_G, too.
func (l *rowGate) refuse(b pool.Batch, m *kernel.Moments) (rows int) {
	l.beyond = append(l.beyond[:0], make([]bool, b.Len())...)
	var squares []float64
	if !l.knowsScores() {
		squares = l.family.mahalanobis(&l.model, b.X)
	}
	for i, v := range l.densities(m) {
		if v > l.gate.limit && (squares == nil || isOutlier(squares[i], len(l.metric.Active))) {
			l.beyond[i] = true
			rows++
		}
	}
	return rows
}

// closeGate takes the rows beyond the gate out of those that count. Their part of the moments is still to be taken out: see
// dropGated.
func (l *rowGate) closeGate(m *kernel.Moments) {
	if !l.usesScores() && !l.gatesByDistance() {
		return
	}
	for i, out := range l.beyond {
		if out && m.Used[i] {
			l.closed = true
			if m.Used[i] = false; m.Atom[i] {
				m.Atoms--
			} else {
				m.Rows--
			}
		}
	}
}

// insideGate sets the gate by rows that are in the pool, and returns which of them pass it.
func (l *rowGate) insideGate(b pool.Batch) []int {
	kept := make([]int, 0, b.Len())
	if !l.usesScores() {
		for i := range b.IDs {
			kept = append(kept, i)
		}
		return kept
	}
	for i, v := range l.setGate(b) {
		if !(v > l.gate.limit) {
			kept = append(kept, i)
		}
	}
	return kept
}

func (g *scoreGate) fields(f *state.Fields) {
	f.F64(&g.limit)
	f.U64(&g.turn)
}
