package online

import "github.com/lca-stream/lca-stream/lca"

// Step is what one call of Learn did. All NLLs are prequential: of the minibatch under the model
// before it was learnt, in nats per row, with all normalising constants.
type Step struct {
	Rows        int  // rows handed in
	Warmup      bool // the rows were only collected: there is no metric yet
	Learnt      int  // rows that entered Ĉ_L
	Gated       int  // rows left out by the outlier gate, and of anomalous minibatches with Drift off
	Opened      bool // more than a tenth were far, so the gate was opened and all were learnt
	Alone       int  // rows without an admissible neighbour, left out
	Copies      int  // pairs of a row and a neighbour left out as near copies or the same record
	Quarantined int  // rows of an anomalous minibatch, which is kept and not learnt (restart.go)
	Released    int  // rows of anomalous minibatches that are given up: the change did not last, or Drift is off
	Held        int  // rows of series that are unusual for a while, kept and not learnt (holds.go)
	Accepted    int  // series of which what was held is normal now
	Joined      int  // rows of anomalous minibatches that are learnt with the others, because a finite set has no order
	Entered     int  // rows that entered the pool

	NLL         float64 // mean over the rows that were not gated; NaN while warming up or where none is left
	GaussianNLL float64 // the same rows under a single Gaussian with the running μ and C_G + ν_g
	Effective   float64 // mean effective number of neighbours exp(H(λ_i))

	Discount     float64     // γ^(B/n): the weight C_L kept
	PassRows     float64     // n
	Replayed     int         // EM steps over the whole pool (pool.go)
	Choice       *lca.Choice // what the data have chosen, where the stream begins (warmup.go) or a comparison ended at this step (choice.go); nil elsewhere
	Eigen        bool        // the split was computed again (Proposition 1); otherwise B_L changed within its span (metricstate.go)
	Ridged       bool        // C_G or C_L was singular and got a small ridge: raise ν or ν_g
	Z            float64     // drift statistic
	Alarm        Alarm       // why the metric is another one, or AlarmRefused
	RefusedShare float64     // of the last rows, at AlarmRefused for many of them; 0 elsewhere
	Still        bool        // no column moves any more, at AlarmRefused for that
	Gaussian     int         // d_G after the step
	Parzen       int         // d_P after the step
	Pool         int         // rows in the pool after the step
}
