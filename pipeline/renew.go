package pipeline

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Renewal commits again offsets that have not moved for a while. Brokers forget an offset that was committed
// offsets.retention.minutes ago if its group has no members, even while a process with static assignment uses it. The
// process before a start may have left it nearly that long ago, so the first renewal comes in the first quiet moment.
// The source must return empty batches in that time.
//
// Start markers have a time of their own: a feed that is never quiet for that long would keep those that it began with, and one on a checkpoint topic that
// is new would have none. They go with the first commit after a start, with one each interval, and with the last one.
type Renewal struct {
	Every   time.Duration                       // interval, well below offsets.retention.minutes
	Markers func(source.Offsets) []sink.Message // returns the start markers, which are renewed too; may be nil
}

// Marked is a stage that has to know which start markers are on the topic.
type Marked interface {
	// Marked says that models go on at these offsets, or later, where the committed ones are gone.
	Marked(source.Offsets)
}

// marks returns the start markers to put with offsets, if it is time; now: in any case.
func (l *Loop) marks(ctx context.Context, next source.Offsets, now bool) []sink.Message {
	if l.Renew == nil || l.Renew.Markers == nil || !now && !l.markedAt.IsZero() && time.Since(l.markedAt) < l.Renew.Every {
		return nil
	}
	if l.Outputs != nil && !l.markedAt.IsZero() { // the start has looked
		l.Outputs.look(ctx, l.kept.Next)
	}
	return l.Renew.Markers(next)
}

// marked notes that start markers are on the topic.
func (l *Loop) marked(marks []sink.Message, next source.Offsets) {
	if len(marks) == 0 {
		return
	}
	l.markedAt = time.Now()
	if m, ok := l.Stage.(Marked); ok {
		m.Marked(next)
	}
}

// renew commits the committed offsets once more if it is time. The claim of the current batch may be ahead of them
// when a stage gathers.
func (l *Loop) renew(ctx context.Context) error {
	if l.Renew == nil || len(l.kept.Next) == 0 || !l.putAt.IsZero() && time.Since(l.putAt) < l.Renew.Every {
		return nil
	}
	claim := l.claim
	if !maps.Equal(claim.Next, l.kept.Next) { // otherwise the source knows the epochs, including those of what was committed before the start
		claim.Next, claim.Epochs = l.kept.Next, l.kept.Epochs
	}
	marks := l.marks(ctx, l.kept.Next, true)
	if err := l.send(ctx, nil, marks, claim); err != nil {
		l.Stats.TransactionsAborted.Add(1)
		if final(err) {
			return err
		}
		return l.rewind(ctx, err)
	}
	l.putAt = time.Now()
	l.marked(marks, l.kept.Next)
	return nil
}

// rest does the periodic work of a batch that gives nothing to put.
func (l *Loop) rest(ctx context.Context) error {
	if err := l.renew(ctx); err != nil {
		return err
	}
	return l.check(ctx)
}

// check ends a loop whose work another owner has taken. An import, a replay, a reset of offsets or a second process
// fences it. Without anything to put it would not notice, and would show an outdated model.
func (l *Loop) check(ctx context.Context) error {
	k, ok := l.Sink.(Checker)
	if !ok || l.Check == 0 || time.Since(l.putAt) < l.Check || time.Since(l.askedAt) < l.Check {
		return nil
	}
	err := k.Check(ctx)
	l.askedAt = time.Now()
	if errors.Is(err, sink.ErrFenced) {
		return err
	}
	if err != nil {
		l.Log.Debug("it is not known whether the work is still ours", "error", err)
	}
	return nil
}
