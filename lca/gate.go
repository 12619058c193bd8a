package lca

import "math"

const (
	gateFloor     = 40   // squared kernel distance
	gateDimension = 10   // times d_P: a row of the data has about d_P
	gateOpens     = 0.10 // share of a minibatch that says: the data moved, not the row
	// Beyond this a square overflows on the way to a covariance. No gate opens for such a row.
	absurd = 1e140
)

// gate returns the squared kernel distance to the nearest neighbour above which a row neither
// enters Ĉ_L nor the pool: max(40, 10·d_P). A far row has weight 1 on its nearest neighbour
// however far, so one row in a thousand at 30 standard deviations would set C_L by itself. Clean
// streams lose nothing by it.
//
// The gate cannot tell an outlier from the first row of a new cluster. More than a tenth of a
// minibatch beyond it is taken for drift, and the minibatch is learnt whole; a new cluster that is
// rarer than that, and further than 10·d_P from all others, stays outside. With Drift off the gate
// never opens: what is far is an outlier however much of it there is. That is for scores against a
// known good time, such as a machine's: its faults last for hundreds of rows, and a learner that took
// them for the new normal would score them as such.
func (c Config) gate(parzen int) float64 {
	if c.OutlierGate != Auto {
		return c.OutlierGate
	}
	return math.Max(gateFloor, gateDimension*float64(parzen))
}

// opens says whether so many gated rows of a minibatch are drift.
func opens(gated, rows int) bool { return float64(gated) > gateOpens*float64(rows) }

// isAbsurd says whether the row's squares overflow; such a row is scored but never learnt.
func isAbsurd(x []float64) bool {
	for _, v := range x {
		if math.Abs(v) > absurd {
			return true
		}
	}
	return false
}
