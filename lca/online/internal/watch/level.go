// Package watch tells by running figures and by chance whether rows are as those before them.
package watch

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/state"
)

const (
	Memory = 30 // minibatches that the running mean and variance cover
	Settle = 10 // minibatches after a start or restart before they are used
)

// Level is the running mean and variance of a figure.
type Level struct {
	Seen           uint64 // minibatches observed
	Mean, Variance float64
}

// Z returns by how many standard deviations a figure exceeds the recent mean; 0 until enough
// minibatches have been seen.
func (d *Level) Z(figure float64) float64 {
	if d.Seen < Settle || !(d.Variance > 0) || math.IsNaN(figure) {
		return 0
	}
	return (figure - d.Mean) / math.Sqrt(d.Variance)
}

// Observe adds the figure of a minibatch that is learnt.
func (d *Level) Observe(figure float64) { d.Among(figure, Memory) }

// Among adds a figure, of which the last memory count.
func (d *Level) Among(figure, memory float64) {
	if math.IsNaN(figure) || math.IsInf(figure, 0) {
		return
	}
	d.Seen++
	delta, w := figure-d.Mean, 1/min(float64(d.Seen), memory)
	d.Mean += float64(w * delta)
	// West's update of a weighted variance; the first minibatch has none.
	d.Variance = float64((1 - w) * (d.Variance + float64(float64(w*delta)*delta)))
}

// MoveTo makes the level that of other scores of the same rows. One that has not settled becomes theirs, with the
// variance of minibatches of that number of independent rows.
func (d *Level) MoveTo(was, now []float64, rows float64) {
	var n, mean, squares, difference float64
	for i, v := range now {
		if u := v - was[i]; u-u == 0 {
			n++
			difference += float64((u - difference) / n)
			delta := v - mean
			mean += float64(delta / n)
			squares += float64(delta * (v - mean))
		}
	}
	if d.Seen >= Settle {
		d.Mean += difference
	} else if n > 0 {
		*d = Level{Seen: Settle, Mean: mean, Variance: squares / n / rows}
	}
}

// Fields passes the level to a state or from one.
func (d *Level) Fields(f *state.Fields) {
	f.U64(&d.Seen)
	f.F64(&d.Mean, &d.Variance)
}
