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

// absentFor is how long brokers may deny a topic that a running process has worked with: one that has
// just started may not know it yet. Longer than that it is deleted.
const absentFor = 30 * time.Second

// absence is since when brokers have denied a topic.
type absence struct{ since time.Time }

// final tells the errors that no retry mends, as the function does, and a topic that stays away.
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

// open makes a partition's loop. A coordinator that loads, or a topic between two leaders, may take
// minutes, and that just while a group divides its partitions: a process that gave up would be started
// again to wait once more. At the first start a wrong address has been found out before.
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
