package online

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/watch"
)

// quietShare is the share of a column's variance in C_L that a quiet column's does not reach.
const quietShare = 0.3

// quietColumns watches for rows that become quiet. They are all near the middle of what was learnt, and so
// more likely than ever: the NLL does not rise, and a low one alone says nothing, because that of a stretch of rows
// from a dense cluster is low too. A column is quiet if the mean square of a minibatch about μ is
//
//   - five standard deviations below that of the recent minibatches, in its logarithm: heavy tails and slow
//     columns vary much, and few minibatches of theirs are so far below the others;
//   - and less than the local variance: no cluster is narrower than the kernel;
//   - and hardly ever that of B rows of the pool (restart.go): a column that nearly always has one value is quiet
//     where no row of a minibatch has another.
type quietColumns struct {
	columns []watch.Level // of the logarithm, for each column
	square  []float64     // of the last minibatch: logarithms, for each column
}

// measure takes the mean squares of a minibatch's rows that count, for observe, and reports whether a column is quiet.
func (q *quietColumns) measure(l *changeWatch, b pool.Batch, m *kernel.Moments) (quiet bool) {
	d := l.cfg.Dim
	q.square = linalg.Resize(q.square, d)
	clear(q.square)
	square, mean, rows := q.square[:d], l.moments.mean[:d], m.Rows+m.Atoms
	for i, used := range m.Used {
		if used {
			kernel.AddSquares(square, b.X[i*d:], mean)
		}
	}
	if q.columns == nil {
		q.columns = make([]watch.Level, d)
	}
	for _, k := range l.metric.Active {
		square := q.square[k] / float64(rows)
		q.square[k] = math.Log(square)
		quiet = quiet || square < quietShare*l.cl[k*d+k] && q.columns[k].Z(q.square[k]) < -driftAlarm && l.rarelyQuiet(k, square, rows)
	}
	return quiet
}

// observe adds the minibatch that was measured last, which is learnt.
func (q *quietColumns) observe(active []int) {
	for _, k := range active {
		q.columns[k].Observe(q.square[k])
	}
}

func (q *quietColumns) fields(f *state.Fields, dim int) {
	state.List(f, &q.columns, 24, func(c *watch.Level) { c.Fields(f) })
	f.Check(len(q.columns) == 0 || len(q.columns) == dim, "mean squares of %d columns, want %d", len(q.columns), dim)
}
