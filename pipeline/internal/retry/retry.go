// Package retry has the waits of a loop before it tries again what has failed, and tells the errors that no retry can cure.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
)

// First is the wait after the first failure of what is tried again.
const First = 50 * time.Millisecond

// Longer returns the wait after the next failure: twice as long, at most 2 s.
func Longer(wait time.Duration) time.Duration { return min(2*wait, 2*time.Second) }

// Sleep waits. It returns false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Final reports errors that no retry can cure.
func Final(err error) bool {
	return errors.Is(err, sink.ErrFenced) || errors.Is(err, sink.ErrRevoked) || sink.Permanent(err) ||
		errors.Is(err, context.Canceled) || errors.As(err, new(*reject.Stop))
}
