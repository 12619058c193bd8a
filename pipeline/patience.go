package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// firstRetry is the wait after the first failure of what is tried again.
const firstRetry = 50 * time.Millisecond

// longer returns the wait after the next failure: twice as long, at most 2 s.
func longer(wait time.Duration) time.Duration { return min(2*wait, 2*time.Second) }

// absentFor is how long brokers may deny a topic that a running process has worked with. A broker that has just
// started may not know it yet. After that time the topic counts as deleted.
const absentFor = 30 * time.Second

// absence remembers since when brokers have denied a topic.
type absence struct{ since time.Time }

// final reports errors that no retry can cure, as the function of that name does, and a topic that stays away.
func (a *absence) final(err error) bool {
	if !errors.Is(err, source.ErrNoTopic) {
		a.since = time.Time{}
		return final(err)
	}
	if a.since.IsZero() {
		a.since = time.Now()
	}
	return time.Since(a.since) >= absentFor
}

// open creates a partition's loop. A coordinator that loads, or a topic between two leaders, may take minutes, and
// often just while a group divides its partitions. A process that ended because of that would be restarted, only to
// wait again. A wrong address was already found at the first start.
func (t *Transforms) open(ctx context.Context, p source.Partition, claim source.Claim) (*Loop, error) {
	var gone absence
	for wait := firstRetry; ; wait = longer(wait) {
		loop, err := t.Open(ctx, p, claim)
		if err == nil || ctx.Err() != nil {
			return loop, err
		}
		passing := source.Passing(err) || errors.Is(err, source.ErrNoTopic)
		if gone.final(err) || !passing {
			return nil, err
		}
		t.Log.Warn("cannot take up a partition yet", "partition", p.String(), "error", err, "retry_in", wait)
		if !sleep(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}
