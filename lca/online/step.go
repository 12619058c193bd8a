package online

// Step is what one call of Learn did. All NLLs are prequential: of the minibatch under the model
// before it was learnt, in nats a row, with all normalising constants.
type Step struct {
	Rows        int  // rows handed in
	Warmup      bool // the rows were only collected: there is no metric yet
	Learnt      int  // rows that entered Ĉ_L
	Gated       int  // rows left out by the outlier gate, and of odd minibatches with Drift off
	Opened      bool // more than a tenth was far, so the gate was opened and all were learnt
	Alone       int  // rows without an admissible neighbour, left out
	Copies      int  // pairs of a row and a neighbour left out as near copies or the same record
	Quarantined int  // rows of an odd minibatch, which is not learnt (restart.go)
	Entered     int  // rows that entered the pool

	NLL         float64 // mean over the rows that were not gated; NaN while warming up or where none is left
	GaussianNLL float64 // the same rows under a single Gaussian with the running μ and C_G + ν_g
	Effective   float64 // mean effective number of neighbours exp(H(λ_i))

	Discount float64 // γ^(B/n): the weight C_L kept
	PassRows float64 // n
	Steps    int     // EM steps taken
	Replayed int     // EM steps over the whole pool (replaypool.go)
	Refitted bool    // a refit came into force (refit.go)
	Eigen    bool    // the split was found anew (Proposition 1); else only B_L moved, in its span (spanupdate.go)
	Ridged   bool    // C_G or C_L was singular and got a small ridge: raise ν or ν_g
	Z        float64 // drift statistic
	Alarm    bool    // drift alarm: the odd rows are believed, and the stream starts again (restart.go)
	Gaussian int     // d_G after the step
	Parzen   int     // d_P after the step
	Pool     int     // rows in the pool after the step
}
