package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Source is what a loop reads from. Read returns source.ErrEnd when a bounded range is exhausted.
type Source interface {
	Read(context.Context) (source.Batch, error)
	Seek(context.Context, source.Offsets) error
	Close() error
}

// Sink is what a loop writes to: messages and claim become visible together, or neither does.
type Sink interface {
	Put(context.Context, []sink.Message, source.Claim) error
	Close() error
}

// Work is the result of a stage for a batch.
type Work struct {
	Messages []sink.Message
	Commit   bool // put now; false lets the stage gather more first
	More     bool // of Finish: once this is put, Finish has more
	Mark     bool // put start markers too, although it is not time

	// Next are the offsets to commit, of a stage that has not yet saved what it has read; nil: those of the batch.
	Next source.Offsets

	Inputs []*source.Message // what each message was made of, in a stage that has to know
}

// claim is what is committed with the work, where c is the batch's. The leader epoch of another offset is not known.
func (w *Work) claim(c source.Claim) source.Claim {
	if w.Next != nil && !maps.Equal(w.Next, c.Next) {
		c.Next, c.Epochs = w.Next, nil
	}
	return c
}

// Stage is Learn or Transform.
type Stage interface {
	// Do may change the stage's state, provisionally: Kept or Rewind follows a put.
	Do(context.Context, source.Batch) (Work, error)
	// Kept reports that the last Work and its offsets are visible for good.
	Kept()
	// Rewind restores the state of the last Kept, and returns where to read on.
	Rewind(context.Context) (source.Offsets, error)
}

// Finisher is a stage that has something left to put when reading ends for good.
type Finisher interface {
	Finish(context.Context) (Work, error)
}

// Checker is a sink that can check, without writing anything, whether it still owns the work.
type Checker interface {
	Check(context.Context) error
}

// Refuser is a stage that can replace a message that is too large for its topic.
type Refuser interface {
	Refuse(work Work, index int, cause error) (Work, error)
}

// Retimer is a stage that can change messages whose timestamp their topic does not take.
type Retimer interface {
	Retime(Work, *sink.TimestampError) (Work, error)
}

// Loop connects one Source, Stage and Sink.
type Loop struct {
	Source    Source
	Stage     Stage
	Sink      Sink
	Grace     time.Duration // how long work in progress may take after ctx has ended; 0 = none
	Stats     *stats.Stats
	Log       *slog.Logger
	Name      string         // label in the metrics: learn or transform; "": none
	Uncounted bool           // another loop of this process reads the same records and counts them
	Trace     Trace          // nil: no traces
	Start     source.Offsets // committed offsets at which reading begins; nil: none are committed
	Epochs    source.Epochs  // leader epochs for Start, as far as they were committed with it
	Renew     *Renewal       // nil: committed offsets are not renewed
	Outputs   *start.Outputs // what is noted with each offset of a transform; nil: nothing
	Check     time.Duration  // after this long without a put the sink checks that it still owns the work; 0 = never

	// Spread, unless nil, randomises the wait before a retry, so that loops do not retry in step.
	Spread func(time.Duration) time.Duration

	claim    source.Claim   // claim of the last batch, which Finish commits
	kept     source.Claim   // committed claim; Next is nil if it is not known
	putAt    time.Time      // time of the last put
	markedAt time.Time      // time of the last put with start markers
	askedAt  time.Time      // time of the last check
	counted  source.Offsets // next messages to count; messages that come again were counted before
}

// Run reads until ctx ends, the source ends, or a fault occurs that retrying cannot cure. The end of ctx is a request
// to stop: reading stops at once, work in progress is finished within Grace, and Run returns nil. A failed Put is
// retried without end from the last kept state, with back-off, because a broker may be away for long. Only
// sink.ErrFenced, sink.ErrRevoked and errors for which sink.Permanent is true end the loop.
func (l *Loop) Run(ctx context.Context) error {
	work, cancel := graceful(ctx, l.Grace)
	defer cancel()
	l.kept.Next, l.kept.Epochs = l.Start, l.Epochs
	l.resumed(l.Start)
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
		l.counted = l.Stats.Read(&batch, l.counted)
	}
	if l.Name != "" {
		l.Stats.Taken(l.Name, &batch)
	}
	l.claim = batch.Claim
	if len(batch.Messages) > 0 {
		l.Log.Debug("read", "messages", len(batch.Messages), "next", claimed{batch.Claim.Next})
	}
	failpoint.Here("read")
	done, err := l.Stage.Do(work, batch)
	if err != nil {
		return err
	}
	l.claim = done.claim(l.claim)
	if !done.Commit || len(done.Messages) == 0 && l.kept.Next != nil && maps.Equal(l.claim.Next, l.kept.Next) {
		return l.rest(work)
	}
	err = l.commit(work, done)
	if err == nil || retry.Final(err) {
		return err
	}
	return l.rewind(ctx, err)
}

// replace asks the stage for a replacement of what its topic will never take. It returns false if cause is another
// error.
func (l *Loop) replace(done Work, cause error) (Work, bool, error) {
	var large *sink.TooLargeError
	var untimely *sink.TimestampError
	switch {
	case errors.As(cause, &large):
		if r, ok := l.Stage.(Refuser); ok && large.Index < len(done.Messages) { // start markers come behind
			done, err := r.Refuse(done, large.Index, large)
			return done, true, err
		}
		return done, false, &reject.Stop{Err: large}
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
	marks := l.marks(ctx, claim.Next, done.Mark)
	err := l.send(ctx, done.Messages, marks, claim)
	ended(err)
	if err != nil {
		l.Stats.TransactionsAborted.Add(1)
		return err
	}
	l.Stats.Transaction.Observe(time.Since(start))
	l.Stats.SinkRecords.Add(uint64(len(done.Messages)))
	l.Log.Debug("committed", "messages", len(done.Messages), "next", claimed{claim.Next}, "took", time.Since(start))
	l.kept, l.putAt = claim, time.Now()
	l.marked(marks, claim.Next)
	if l.Name != "" {
		l.Stats.Committed(l.Name, claim)
	}
	return nil
}

// send puts messages, start markers and offsets, with the note of what a transform has written.
func (l *Loop) send(ctx context.Context, msgs, marks []sink.Message, claim source.Claim) error {
	kept := func() {}
	if l.Outputs != nil { // before they are copied: it asks where the last ones are written
		claim, kept = l.Outputs.Claim(claim, msgs)
	}
	err := l.Sink.Put(ctx, append(slices.Clip(msgs), marks...), claim)
	if err == nil {
		kept()
	}
	return err
}

// rewind goes back to the last kept state after a put that is not visible, or whose outcome the offsets will tell.
// The sink has a new epoch by now, so no late request can take effect.
func (l *Loop) rewind(ctx context.Context, cause error) error {
	l.Log.Warn("transaction aborted; going back to the last commit", "error", cause)
	var gone absence
	for wait := retry.First; ; wait = retry.Longer(wait) {
		// An empty put ends what the failed transaction may have left open, if that was not possible before. Until
		// then the offsets are not final, and brokers do not return them.
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
			l.resumed(offsets)
			return nil
		}
		if gone.final(err) {
			return err
		}
		pause := wait
		if l.Spread != nil {
			pause = l.Spread(wait)
		}
		if !retry.Sleep(ctx, pause) {
			return ctx.Err()
		}
		l.Log.Warn("cannot go back to the last commit yet", "error", err, "waited", pause)
	}
}

// resumed notes where reading goes on.
func (l *Loop) resumed(at source.Offsets) {
	if l.Name != "" {
		l.Stats.Resumed(l.Name, at)
	}
}

// end finishes the stage when reading has ended: by request, or at the end of the range.
func (l *Loop) end(ctx, work context.Context, cause error) error {
	ended := errors.Is(cause, source.ErrEnd)
	if !ended && ctx.Err() == nil {
		return fmt.Errorf("pipeline: read: %w", cause)
	}
	f, ok := l.Stage.(Finisher)
	if !ok {
		return nil
	}
	for {
		more, err := l.finish(work, f, ended)
		if err != nil || !more {
			return err
		}
	}
}

// finish puts what is left, or a part of it where more follows.
func (l *Loop) finish(work context.Context, f Finisher, ended bool) (more bool, err error) {
	done, err := f.Finish(work)
	made := err == nil
	if made && !done.Commit {
		return false, nil
	}
	if made {
		done.Mark = true
		err = l.put(work, done, done.claim(l.claim))
	}
	switch late := work.Err() != nil && errors.Is(err, work.Err()); { // late: Grace is over
	case err == nil:
		l.Stage.Kept()
		return done.More, nil
	case !ended && (late || made && !retry.Final(err)):
		l.Log.Warn("the last checkpoint was not written; the next start resumes from the one before", "error", err)
		return false, nil
	}
	return false, err
}

// graceful returns a context that ends `grace` after ctx does.
func graceful(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		retry.Sleep(work, grace)
		cancel()
	})
	return work, func() { stop(); cancel() }
}

// Trace is called when a piece of work begins, and returns the function to call when it has ended. The work is
// "process" for a batch, with the batch, and within it "commit" for a transaction, without a batch.
type Trace func(ctx context.Context, work string, b *source.Batch) (context.Context, func(error))

// traced is Trace, or nothing for loops without traces.
func (l *Loop) traced(ctx context.Context, work string, b *source.Batch) (context.Context, func(error)) {
	if l.Trace == nil {
		return ctx, func(error) {}
	}
	return l.Trace(ctx, work, b)
}

// Pacer is a sink that knows how many bytes one put should hold at most on the current link; 0: unlimited.
type Pacer interface {
	Most() int
}

// Splitter is a stage whose work can be put in parts, one transaction each.
type Splitter interface {
	// Split cuts off a first part of at most most bytes, but of at least what was made of one input. next are the offsets of that
	// part; nil: there is nothing to cut.
	Split(work Work, most int) (first, rest Work, next source.Offsets)
}

// commit makes the work and its offsets visible: together, or on a slow link in parts, each with the offsets that it
// stands for. There, a transaction that is too large would always run out of time.
func (l *Loop) commit(ctx context.Context, done Work) error {
	pacer, paced := l.Sink.(Pacer)
	splitter, splits := l.Stage.(Splitter)
	for paced && splits {
		most := pacer.Most()
		if most == 0 {
			break
		}
		first, rest, next := splitter.Split(done, most)
		if next == nil {
			break
		}
		claim := l.claim
		claim.Next = maps.Clone(claim.Next)
		maps.Copy(claim.Next, next)
		if err := l.place(ctx, first, claim); err != nil {
			return err
		}
		done = rest
	}
	if err := l.place(ctx, done, l.claim); err != nil {
		return err
	}
	l.Stage.Kept()
	return nil
}

// place puts the work. If a topic will never take a message, it asks the stage for a replacement.
func (l *Loop) place(ctx context.Context, done Work, claim source.Claim) (err error) {
	for refused := true; refused; {
		err = l.put(ctx, done, claim)
		if done, refused, err = l.replace(done, err); err != nil {
			return err
		}
	}
	return nil
}
