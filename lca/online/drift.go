package online

import (
	"math"

	"github.com/lca-stream/lca-stream/lca"
)

const (
	driftAlarm  = 5.0 // standard deviations
	driftMemory = 30  // minibatches over which the running mean and variance look back
	driftSettle = 10  // minibatches after the start or a renewal before which they say nothing
	// Rows a column for which a change must last with the density preset, and the least in all.
	patientColumns = 100
	patientRows    = 1000
)

// drift watches the prequential NLL: the mean of each minibatch under the metric before it was
// learnt. A change in the data shows there at once, whatever it is that changed. A minibatch is odd if
//
//	z = (NLL − mean) / sd > 5
//
// with the mean and variance of those of the recent past that were not. While the metric is still
// improving the NLL falls, so that z is negative. What becomes of odd minibatches is in restart.go.
// Config.Drift turns this off.
type drift struct {
	seen           uint64 // minibatches since the start or the last renewal
	mean, variance float64
}

// z returns by how many standard deviations the NLL of a minibatch exceeds the past's; 0 while too
// little of that is known.
func (d *drift) z(nll float64) float64 {
	if d.seen < driftSettle || !(d.variance > 0) || math.IsNaN(nll) {
		return 0
	}
	return (nll - d.mean) / math.Sqrt(d.variance)
}

// observe takes the NLL of a minibatch that is learnt.
func (d *drift) observe(nll float64) {
	if math.IsNaN(nll) || math.IsInf(nll, 0) {
		return
	}
	d.seen++
	delta, w := nll-d.mean, 1/float64(min(d.seen, driftMemory))
	d.mean += float64(w * delta)
	// West's update of a weighted variance; the first minibatch has none.
	d.variance = float64((1 - w) * (d.variance + float64(float64(w*delta)*delta)))
}

// driftRows returns for how many rows a change must last before it is believed, at least a warm-up's.
//
// The metric preset is for following the stream: it believes as soon as there are rows enough to start
// with. The density preset is for scores, and most faults that a score should show last longer than
// that: it waits for 1000 rows, or 100 a column (no more than the pool holds, which is all that a start
// can use). Nothing is lost by waiting but time, since the start is then made from all of them.
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
