package lca

// Choice says what was compared when a learner chose by the data, and what it took: see package online.
type Choice struct {
	Rows       uint64 // rows learnt when the candidates were fitted
	Candidates []Trial
	Taken      int // index of the candidate that was taken; 0 is what was there before
}

// FirstFit is the name of the first candidate where a learner begins: there is nothing before it.
const FirstFit = "first fit"

// Beginning reports whether this is the choice with which a learner begins. Its candidates were fitted to the rows that judged them, so the NLL
// of each has a part for the numbers that it fits.
func (c *Choice) Beginning() bool { return len(c.Candidates) > 0 && c.Candidates[0].Name == FirstFit }

// Other reports whether the candidate that was taken has other settings than the one before it, or another split. If not,
// the same model was fitted again.
func (c *Choice) Other() bool {
	was, now := c.Candidates[0], c.Candidates[c.Taken]
	return was.Parzen != now.Parzen || was.Nu != now.Nu || was.NuUnit != now.NuUnit || was.Kernel != now.Kernel
}

// Trial is a candidate of a Choice.
type Trial struct {
	Name   string  // "current", FirstFit, "gaussian", what Search calls its candidates, or the settings that it changes
	Parzen int     // d_P
	Nu     float64 // ν
	NuUnit Unit
	Kernel Kernel
	NLL    float64 // leave-one-out, on rows of the pool that it was not fitted to unless it is the Beginning, nats per row; +Inf where it collapsed
}
