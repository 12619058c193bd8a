package online

import (
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/internal/enum"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/watch"
)

const (
	driftAlarm = 5.0 // standard deviations
	// With the density preset a change must last for this many rows per column, and for at least patientRows.
	patientColumns = 100
	patientRows    = 1000
)

// drift watches the prequential NLL: the mean of each minibatch under the metric before it was
// learnt. Any change that makes rows less likely shows there at once. A minibatch is anomalous if
//
//	z = (NLL − mean) / sd > 5
//
// with the mean and variance of the recent minibatches that were not, or if a column has become quiet; and if rows like the
// pool's hardly ever give such a minibatch (restart.go). While the metric
// still improves, the NLL falls and z is negative. restart.go says what happens to anomalous minibatches.
// Config.Drift turns this off.
type drift struct {
	nll   watch.Level
	far   watch.Level // share of far rows
	quiet quietColumns
}

// young reports whether few minibatches have been learnt since the start or the last restart. far counts all of them; nll
// counts those since the gate last opened, and a former regime has that of one that has settled.
func (d *drift) young() bool { return max(d.nll.Seen, d.far.Seen) < watch.Settle }

// driftRows returns for how many rows a change must last before the learner restarts from it: at least the warm-up's.
//
// The metric preset is for following the stream, and restarts as soon as there are enough rows. The density preset is
// for scores, and most faults that a score should show last longer than a warm-up. So it waits for 1000 rows, or 100
// per column (at most the pool's size, which is all that a restart can use). Waiting loses nothing but time, because
// the restart uses all of them.
func (c Config) driftRows() int {
	rows := c.DriftRows
	if rows == lca.Auto {
		rows = 0
		if c.Preset == lca.PresetDensity {
			rows = max(patientRows, min(patientColumns*c.Dim, c.Neighbours))
		}
	}
	return max(rows, c.warmupRows())
}

const (
	quietShare   = 0.3 // share of a column's variance in C_L that a quiet column's does not reach
	quietOutside = 0.5 // share of what it was that a quiet Gaussian part does not reach
)

// quietColumns watches for rows that become quiet. They are all near the middle of what was learnt, and so
// more likely than ever: the NLL does not rise, and a low one alone says nothing, because that of a stretch of rows
// from a dense cluster is low too. A column is quiet if the mean square of a minibatch about μ is
//
//   - five standard deviations below that of the recent minibatches, in its logarithm: heavy tails and slow
//     columns vary much, and few minibatches of theirs are so far below the others;
//   - and less than the local variance: no cluster is narrower than the kernel;
//   - and hardly ever that of B rows of the pool (restart.go): a column that nearly always has one value is quiet
//     where no row of a minibatch has another.
//
// The Gaussian directions as a whole have no clusters, so that a smaller change is enough there: half of the mean
// square that they had.
type quietColumns struct {
	columns []watch.Level // of the logarithm, for each column
	outside watch.Level   // of the logarithm of the mean square of a Gaussian direction

	square []float64 // of the last minibatch: logarithms, for each column
	part   float64   // of the last minibatch: logarithm for the Gaussian part; NaN where there is none
}

// measure takes the mean squares of a minibatch's rows that count, for observe, and reports whether a column is quiet.
func (q *quietColumns) measure(l *Learner, b pool.Batch, m *kernel.Moments) (quiet bool) {
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
	q.measurePart(l, m)
	return quiet || q.part < q.outside.Mean+math.Log(quietOutside) && q.outside.Z(q.part) < -driftAlarm && l.rarelyQuietOutside(math.Exp(q.part), rows)
}

// measurePart takes the mean square of the Gaussian part.
func (q *quietColumns) measurePart(l *Learner, m *kernel.Moments) {
	directions := len(l.metric.Active) - l.metric.parzen
	if q.part = math.NaN(); directions == 0 {
		return
	}
	sum := 0.0
	for i, half := range l.estimator.halfSquares() {
		if m.Used[i] {
			sum += half
		}
	}
	q.part = math.Log(2 * sum / float64((m.Rows+m.Atoms)*directions))
}

// observe adds the minibatch that was measured last, which is learnt.
func (q *quietColumns) observe(active []int) {
	for _, k := range active {
		q.columns[k].Observe(q.square[k])
	}
	q.outside.Observe(q.part)
}

// clone returns levels of its own.
func (q *quietColumns) clone() quietColumns {
	return quietColumns{columns: slices.Clone(q.columns), outside: q.outside}
}

func (q *quietColumns) write(w *state.Writer) {
	w.Count(len(q.columns))
	for k := range q.columns {
		q.columns[k].Write(w)
	}
	q.outside.Write(w)
}

func (q *quietColumns) read(r *state.Reader, dim int) {
	n := r.Count(24)
	if r.Err == nil && n != 0 && n != dim {
		r.Err = fmt.Errorf("mean squares of %d columns, want %d", n, dim)
	}
	q.columns = nil
	for range n {
		var c watch.Level
		c.Read(r)
		q.columns = append(q.columns, c)
	}
	q.outside.Read(r)
}

// Alarm says why a learner has left its metric for another one, or that it refuses many rows.
type Alarm uint8

// The alarms.
const (
	AlarmNone           Alarm = iota // the metric goes on
	AlarmDrift                       // the stream has changed: the learner restarted from the rows since (restart.go)
	AlarmRegimeReturned              // a former metric explains the rows, and is current again
	AlarmLockout                     // most rows were refused: the learner restarted from those that came next (watch.Refusals)
	AlarmRefused                     // many rows have been refused for long (watch.Refusals), or no column has moved for as long as a change must last (restart.go); the metric goes on
)

var alarmNames = enum.Names[Alarm]{AlarmNone: "none", AlarmDrift: "drift", AlarmRegimeReturned: "regime_returned", AlarmLockout: "lockout", AlarmRefused: "refused"}

// String returns the name that records of alarms use.
func (a Alarm) String() string { return alarmNames.Of(a) }

func (c *counts) count(a Alarm) {
	switch a {
	case AlarmDrift:
		c.Alarms++
	case AlarmLockout:
		c.Alarms++
		c.Lockouts++
	case AlarmRefused:
		c.Refusals++
	case AlarmRegimeReturned:
		c.Returns++
	case AlarmNone:
	}
}

// AlarmsOf returns how often there was an alarm of that kind since the learner was made; restarts and restores in
// between count.
func (l *Learner) AlarmsOf(kind Alarm) uint64 {
	c := &l.counts
	switch kind {
	case AlarmDrift:
		return c.Alarms - c.Lockouts
	case AlarmLockout:
		return c.Lockouts
	case AlarmRegimeReturned:
		return c.Returns
	case AlarmRefused:
		return c.Refusals
	case AlarmNone:
	}
	return 0
}
