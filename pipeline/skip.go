package pipeline

// skipper decides which minibatches are learnt when the learner is behind the stream: every k-th,
// so that what is learnt stays an even, unbiased sample (section 5.1 of the paper asks no more).
// k doubles while the lag keeps growing and halves when it shrinks; k = 1 learns everything.
type skipper struct {
	k     uint64
	seen  uint64
	lag   int64
	turns int
}

const (
	skipMost   = 256 // largest k
	skipTurns  = 4   // batches between two looks at the lag
	skipBehind = 64  // records of lag that are nobody's business
)

// measure looks at the lag once every few batches.
func (s *skipper) measure(enabled bool, lag func() int64) {
	s.k = max(s.k, 1)
	if !enabled || lag == nil {
		s.k = 1
		return
	}
	if s.turns++; s.turns%skipTurns != 0 {
		return
	}
	now := lag()
	switch {
	case now <= skipBehind:
		s.k = 1
	case now >= s.lag-s.lag/8 && s.k < skipMost:
		s.k *= 2
	case now < s.lag/2 && s.k > 1:
		s.k /= 2
	}
	s.lag = now
}

// now says whether the next minibatch is skipped.
func (s *skipper) now() bool {
	s.seen++
	return s.k > 1 && s.seen%s.k != 0
}
