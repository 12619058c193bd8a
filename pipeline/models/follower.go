package models

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// follower reads a partition of the snapshot topic as it grows, and lets others wait until it has come so far.
type follower struct {
	wait time.Duration // until the next attempt
	lost bool          // the partition could not be followed, and that was logged

	mu    sync.Mutex // guards the fields below; never held while waiting
	next  int64      // everything before it has been taken
	moved chan struct{}
}

// follow calls tail, which reads on, until ctx ends, and then returns nil. It returns errors that no retry can cure, such as a missing right.
// forget forgets what was read of a topic that is another one now.
func (f *follower) follow(ctx context.Context, log *slog.Logger, tail func(context.Context) error, forget func()) error {
	for f.wait = retry.First; ctx.Err() == nil; f.wait = retry.Longer(f.wait) {
		err := tail(ctx)
		if ctx.Err() != nil {
			break
		}
		if sink.Permanent(err) || errors.As(err, new(*reject.Stop)) {
			return fmt.Errorf("pipeline: follow the snapshot topic: %w", err)
		}
		f.lost = true
		if replaced(err) {
			forget()
			log.Warn("the snapshot topic is not the one that was read: it is read from its beginning, and what is current stays until there is a newer model")
		} else {
			log.Warn("cannot follow the snapshot topic; what is current stays", "error", err, "retry_in", f.wait)
		}
		retry.Sleep(ctx, f.wait)
	}
	return nil
}

// replaced reports whether the topic is no longer the one that was read, because it was created again or truncated.
// What was read before then says nothing about what comes.
func replaced(err error) bool {
	return errors.As(err, new(*source.OffsetError)) || errors.As(err, new(*source.RecreatedError)) || errors.As(err, new(*source.TruncatedError))
}

func (f *follower) fetch(ctx context.Context, log *slog.Logger, from checkpoint.TopicReader) (source.Fetched, error) {
	got, err := from.Fetch(ctx)
	if err != nil {
		return got, err
	}
	f.wait = retry.First
	if f.lost {
		f.lost = false
		log.Info("the snapshot topic is followed again")
	}
	return got, nil
}

// advance says that everything before next has been taken, and wakes those who wait.
func (f *follower) advance(next int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
	if f.moved != nil {
		close(f.moved)
		f.moved = nil
	}
}

// position returns the offset to read next.
func (f *follower) position() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

// await waits until done, which is called with the mutex held, and again after each advance.
func (f *follower) await(ctx context.Context, done func() bool) error {
	for {
		f.mu.Lock()
		if f.moved == nil {
			f.moved = make(chan struct{})
		}
		ok, moved := done(), f.moved
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

// awaitEnd waits until everything before the end of the partition has been taken.
func (f *follower) awaitEnd(ctx context.Context, endOf func(context.Context) (int64, error)) error {
	end, err := endOf(ctx)
	if err != nil {
		return fmt.Errorf("pipeline: end of the snapshot topic: %w", err)
	}
	return f.await(ctx, func() bool { return f.next >= end })
}
