package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Source is where a loop reads. Read returns source.ErrEnd when a bounded range is exhausted.
type Source interface {
	Read(context.Context) (source.Batch, error)
	Seek(context.Context, source.Offsets) error
	Close() error
}

// Sink is where a loop writes: messages and claim become visible together, or neither does.
type Sink interface {
	Put(context.Context, []sink.Message, source.Claim) error
	Close() error
}

// Work is what a stage made of a batch.
type Work struct {
	Messages []sink.Message
	Commit   bool // put now; false lets the stage gather more before anything becomes visible

	from int // its first message in the stage's batch
}

// Stage is Learn or Transform.
type Stage interface {
	// Do may change the stage's state, provisionally: Kept or Rewind follows a put.
	Do(context.Context, source.Batch) (Work, error)
	// Kept says that the last Work and its offsets are visible forever.
	Kept()
	// Rewind returns to the state of the last Kept, and says where to read on.
	Rewind(context.Context) (source.Offsets, error)
}

// Finisher is a stage with something left to put when reading has ended for good.
type Finisher interface {
	Finish(context.Context) (Work, error)
}

// Checker is a sink that can tell whether the work is still its own, without writing anything.
type Checker interface {
	Check(context.Context) error
}

// Refuser is a stage that knows what to put instead of a message that is too large for its topic.
type Refuser interface {
	Refuse(work Work, index int, cause error) (Work, error)
}

// Retimer is a stage that knows what to do about a message whose time its topic does not take.
type Retimer interface {
	Retime(Work, *sink.TimestampError) (Work, error)
}

// Loop is one Source, Stage and Sink tied together.
type Loop struct {
	Source    Source
	Stage     Stage
	Sink      Sink
	Grace     time.Duration // how long work in flight may take once ctx has ended; 0 = none
	Stats     *Stats
	Log       *slog.Logger
	Name      string         // learn or transform, of the metrics; "": none of its own
	Uncounted bool           // another loop of this process reads the same records, and counts them
	Trace     Trace          // nil: no traces
	Start     source.Offsets // where reading begins, which is committed; nil: it is not
	Epochs    source.Epochs  // of Start, as far as they were committed with it
	Renew     *Renewal       // nil = committed offsets are not renewed
	Check     time.Duration  // after so long without a put the sink is asked whether the work is still its own; 0 = never

	// Spread, unless nil, makes another wait of one before a retry, so that loops do not retry in step.
	Spread func(time.Duration) time.Duration

	claim   source.Claim   // of the last batch: what Finish commits
	kept    source.Claim   // what is committed; Next nil: not known
	putAt   time.Time      // when it was
	askedAt time.Time      // when the sink was asked last
	counted source.Offsets // the next messages to count: those that come again have been
}

// Run reads until ctx ends, the source ends, or a fault that retrying cannot mend. A context that
// ends is a request to stop: reading stops at once, what is in flight is finished within Grace,
// and Run returns nil. A failed Put is retried forever from the last kept state, with back-off,
// because a broker may be away for long; only sink.ErrFenced, sink.ErrRevoked and what sink.Permanent
// names end the loop.
func (l *Loop) Run(ctx context.Context) error {
	work, cancel := graceful(ctx, l.Grace)
	defer cancel()
	l.kept.Next, l.kept.Epochs = l.Start, l.Epochs
	for {
		batch, err := l.Source.Read(ctx)
		if err != nil {
			return l.end(ctx, work, err)
		}
		if err := l.step(ctx, work, batch); err != nil {
			if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ctx.Err())) {
				return nil
			}
			return err
		}
	}
}

// step takes one batch through the stage and the sink.
func (l *Loop) step(ctx, work context.Context, batch source.Batch) (err error) {
	defer batch.Release()
	work, ended := l.traced(work, "process", &batch)
	defer func() { ended(err) }()
	if !l.Uncounted {
		l.counted = l.Stats.read(&batch, l.counted)
	}
	if l.Name != "" {
		l.Stats.waits.taken(l.Name, &batch)
	}
	l.claim = batch.Claim
	failpoint.Here("read")
	done, err := l.Stage.Do(work, batch)
	if err != nil {
		return err
	}
	if !done.Commit || len(done.Messages) == 0 && l.kept.Next != nil && maps.Equal(l.claim.Next, l.kept.Next) {
		return l.rest(work)
	}
	err = l.commit(work, done)
	if err == nil || final(err) {
		return err
	}
	return l.rewind(ctx, err)
}

// replace asks the stage for something else than what its topic will never take. false: that was not the matter.
func (l *Loop) replace(done Work, cause error) (Work, bool, error) {
	var large *sink.TooLargeError
	var untimely *sink.TimestampError
	switch {
	case errors.As(cause, &large):
		if r, ok := l.Stage.(Refuser); ok {
			done, err := r.Refuse(done, large.Index, large)
			return done, true, err
		}
		return done, false, &Stop{Err: large}
	case errors.As(cause, &untimely):
		if r, ok := l.Stage.(Retimer); ok {
			done, err := r.Retime(done, untimely)
			return done, true, err
		}
	}
	return done, false, cause
}

// put makes the work and its offsets visible together (invariant 1).
func (l *Loop) put(ctx context.Context, done Work, claim source.Claim) error {
	start := time.Now()
	ctx, ended := l.traced(ctx, "commit", nil)
	err := l.Sink.Put(ctx, done.Messages, claim)
	ended(err)
	if err != nil {
		l.Stats.TransactionsAborted.Add(1)
		return err
	}
	l.Stats.Transaction.observe(time.Since(start))
	l.Stats.SinkRecords.Add(uint64(len(done.Messages)))
	l.kept, l.putAt = claim, time.Now()
	if l.Name != "" {
		l.Stats.waits.committed(l.Name, claim)
	}
	return nil
}

// rewind goes back to the last kept state after a put that is known not to be visible, or whose
// outcome the offsets will tell. The sink has a new epoch by now, so nothing late can join in.
func (l *Loop) rewind(ctx context.Context, cause error) error {
	l.Log.Warn("transaction aborted; going back to the last commit", "error", cause)
	var gone absence
	for wait := firstRetry; ; wait = longer(wait) {
		// Nothing to put: it only ends what the failed transaction may have left open, if that was not
		// possible before. Until then the offsets are not final, and brokers do not tell them.
		err := l.Sink.Put(ctx, nil, source.Claim{})
		var offsets source.Offsets
		if err == nil {
			offsets, err = l.Stage.Rewind(ctx)
		}
		if err == nil {
			err = l.Source.Seek(ctx, offsets)
		}
		if err == nil {
			if !maps.Equal(l.kept.Next, offsets) {
				l.kept = source.Claim{Next: offsets}
			}
			return nil
		}
		if gone.final(err) {
			return err
		}
		pause := wait
		if l.Spread != nil {
			pause = l.Spread(wait)
		}
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
		l.Log.Warn("cannot go back to the last commit yet", "error", err, "waited", pause)
	}
}

// end finishes the stage when reading has ended: by request, or because the range is done.
func (l *Loop) end(ctx, work context.Context, cause error) error {
	ended := errors.Is(cause, source.ErrEnd)
	if !ended && ctx.Err() == nil {
		return fmt.Errorf("pipeline: read: %w", cause)
	}
	f, ok := l.Stage.(Finisher)
	if !ok {
		return nil
	}
	done, err := f.Finish(work)
	if err != nil {
		return err
	}
	if !done.Commit {
		return nil
	}
	if err = l.put(work, done, l.claim); err == nil {
		l.Stage.Kept()
	}
	if err != nil && !ended && !final(err) {
		l.Log.Warn("the last checkpoint was not written; the next start resumes from the one before", "error", err)
		return nil
	}
	return err
}

// final tells the errors that no retry mends.
func final(err error) bool {
	return errors.Is(err, sink.ErrFenced) || errors.Is(err, sink.ErrRevoked) || sink.Permanent(err) ||
		errors.Is(err, context.Canceled) || errors.As(err, new(*Stop))
}

// Stop is a fault of the data or the configuration that a person must look at; nothing is lost.
type Stop struct {
	Err  error
	Hint string // what to do
}

// Error says what happened and what to do.
func (s *Stop) Error() string {
	if s.Hint == "" {
		return "pipeline: stopped: " + s.Err.Error()
	}
	return "pipeline: stopped: " + s.Err.Error() + ": " + s.Hint
}

// Unwrap returns the cause.
func (s *Stop) Unwrap() error { return s.Err }

// graceful returns a context that ends `grace` after ctx does.
func graceful(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		sleep(work, grace)
		cancel()
	})
	return work, func() { stop(); cancel() }
}

// sleep waits, and says false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
