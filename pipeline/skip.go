package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
)

// skipper decides which minibatches are learnt when the learner cannot keep up with the stream: every k-th, so that
// the learnt rows are still an even, unbiased sample (section 5.1 of the paper asks no more). A backlog that shrinks
// is learnt in full. k doubles each time the lag has grown by an eighth, and halves each time it has fallen to half
// of what it was when k last changed. k = 1 learns everything.
type skipper struct {
	k      uint64
	seen   uint64
	known  bool  // least is set
	least  int64 // the smallest lag since k changed
	turned int64 // the lag when k last changed
	turns  int
}

const (
	skipMost   = 256 // largest k
	skipTurns  = 4   // batches between two measurements of the lag
	skipBehind = 64  // lag, in records, that needs no action
)

// measure reads the lag once every few batches, and returns k.
func (s *skipper) measure(enabled bool, lag func() int64) uint64 {
	s.k = max(s.k, 1)
	if !enabled || lag == nil {
		s.k, s.known = 1, false
		return s.k
	}
	if s.turns++; s.turns%skipTurns != 0 {
		return s.k
	}
	now := lag()
	switch {
	case now <= skipBehind:
		s.k, s.known = 1, false
		return s.k
	case s.known && now > s.least+s.least/8 && s.k < skipMost:
		s.k *= 2
		s.least, s.turned = now, now
	case s.k > 1 && now < s.turned/2:
		s.k /= 2
		s.least, s.turned = now, now
	case !s.known:
		s.least, s.known = now, true
	}
	s.least = min(s.least, now)
	return s.k
}

// now reports whether the next minibatch is skipped.
func (s *skipper) now() bool {
	s.seen++
	return s.k > 1 && s.seen%s.k != 0
}

// skipped logs what share of the rows is skipped: as soon as any are, and then once a minute with the figures since
// the last line, until none are.
type skipped struct {
	rows, learnt uint64    // since the last line
	at           time.Time // of the last line; zero: none was skipped
}

// skippedEvery is the interval between two lines.
const skippedEvery = time.Minute

// say logs a line if one is due. k is the skipper's.
func (s *skipped) say(log *slog.Logger, now time.Time, k uint64) {
	switch {
	case s.rows == 0 && s.at.IsZero():
		s.learnt = 0
		return
	case now.Sub(s.at) < skippedEvery:
		return
	case s.rows == 0:
		log.Info("the learner keeps up again: no rows are skipped", "learnt", s.learnt)
		*s = skipped{}
		return
	}
	share := 1 - 1/float64(k) // of what comes now: the rows that the first line could count are too few to tell
	if !s.at.IsZero() {
		share = float64(s.rows) / float64(s.rows+s.learnt)
	}
	log.WarnContext(logs.Unlimited(context.Background()), "rows are skipped evenly, because they come faster than they are learnt", "skipped", s.rows, "learnt", s.learnt,
		"share", fmt.Sprintf("%.0f %%", 100*share), "learnt_one_minibatch_in", k,
		"remedy", "none is needed for an even sample; to learn all of a backlog, begin with --from-history, or lca.skip_when_behind: false")
	*s = skipped{at: now}
}
