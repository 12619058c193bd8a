package online

import (
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online/internal/watch"
)

const (
	driftAlarm = 5.0 // standard deviations that are rare: one figure of a minibatch in three million is beyond, and a row's squared distance hardly ever
	// With the density preset a change must last for this many rows per column, and for at least patientRows. With the metric preset it is accepted after as many.
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

// clone returns figures of its own.
func (d *drift) clone() drift {
	return drift{d.nll, d.far, quietColumns{columns: slices.Clone(d.quiet.columns)}}
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
