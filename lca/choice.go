package lca

// Choice says what was compared when a learner chose by the data, and what it took: see package online.
type Choice struct {
	Rows       uint64 // rows learnt when the candidates were fitted
	Candidates []Trial
	Taken      int // index of the candidate that was taken; 0 is what was there before
}

// Other reports whether the candidate that was taken has other settings than the one before it, or another split. If not,
// the same model was fitted again.
func (c *Choice) Other() bool {
	was, now := c.Candidates[0], c.Candidates[c.Taken]
	return was.Parzen != now.Parzen || was.Nu != now.Nu || was.NuUnit != now.NuUnit || was.Kernel != now.Kernel
}

// Trial is a candidate of a Choice.
type Trial struct {
	Name   string  // "current", "gaussian", what Search calls its candidates, or the settings that it changes
	Parzen int     // d_P
	Nu     float64 // ν
	NuUnit Unit
	Kernel Kernel
	NLL    float64 // leave-one-out, on rows of the pool that it was not fitted to, nats per row; +Inf where it collapsed
}
