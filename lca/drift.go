package lca

import "math"

const (
	driftAlarm  = 5.0 // standard deviations
	driftMemory = 30  // minibatches over which the running mean and variance look back
	driftSettle = 10  // minibatches after the start or an alarm in which none is raised
)

// drift watches the prequential NLL: the mean of each minibatch under the metric before it was
// learnt. A change in the data shows there at once, whatever it is that changed. The alarm is
//
//	z = (NLL − mean) / sd > 5
//
// with the mean and variance of the minibatches of the recent past. While the metric is still
// improving the NLL falls, so that z is negative and no alarm is raised. What follows one is renew.go.
// Config.Drift turns this off, and with it the opening of the gate (gate.go).
type drift struct {
	seen           uint64 // minibatches since the start or the last alarm
	mean, variance float64
}

// observe takes the NLL of a minibatch and says whether it raises the alarm, and with which z.
func (d *drift) observe(nll float64) (z float64, alarm bool) {
	if math.IsNaN(nll) || math.IsInf(nll, 0) {
		return 0, false
	}
	delta := nll - d.mean
	if d.seen >= driftSettle && d.variance > 0 {
		z = delta / math.Sqrt(d.variance)
		if z > driftAlarm {
			*d = drift{}
			return z, true
		}
	}
	d.seen++
	w := 1 / float64(min(d.seen, driftMemory))
	d.mean += float64(w * delta)
	// West's update of a weighted variance; the first minibatch has none.
	d.variance = float64((1 - w) * (d.variance + float64(float64(w*delta)*delta)))
	return z, false
}
