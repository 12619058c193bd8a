package learn

import (
	"context"
	"errors"
	"maps"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// History is the source of a learner that begins with a backlog. It reads the backlog to its end, in the order of
// time, and then goes on with what comes. So what is learnt of the backlog depends only on its records, whatever the
// order in which brokers answer and however often the learner is started again on the way.
type History struct {
	Past  func(ctx context.Context, from, to source.Offsets) (pipeline.Source, error) // opens the backlog's partitions, which from and to both name, as a Merge
	Live  func(ctx context.Context, from source.Offsets) (pipeline.Source, error)     // opens all partitions, without an end
	End   source.Offsets                                                              // the offset behind the backlog's last record, of each partition that has one
	Next  source.Offsets                                                              // where reading begins
	Claim source.Claim                                                                // template of the claims

	open pipeline.Source // nil: it is opened with the next Read
	past bool            // it reads the backlog
}

// Read returns the next messages. Between the backlog and what comes after it there is a batch without messages, whose
// claim is the end of the backlog: what ends it may be no record, but the marker of a transaction.
func (h *History) Read(ctx context.Context) (source.Batch, error) {
	if h.open == nil {
		if err := h.reopen(ctx); err != nil {
			return source.Batch{}, err
		}
	}
	b, err := h.open.Read(ctx)
	if !h.past || !errors.Is(err, source.ErrEnd) {
		for p, next := range b.Claim.Next {
			h.Next[p] = next
		}
		return b, err
	}
	for p, end := range h.End {
		h.Next[p] = max(h.Next[p], end)
	}
	claim := h.Claim
	claim.Next = h.Next.Clone()
	return source.Batch{Claim: claim}, h.Close()
}

func (h *History) reopen(ctx context.Context) (err error) {
	from, to := source.Offsets{}, source.Offsets{}
	for p, end := range h.End {
		if next, ours := h.Next[p]; ours && next < end {
			from[p], to[p] = next, end
		}
	}
	if h.past = len(from) > 0; h.past {
		h.open, err = h.Past(ctx, from, to)
		return err
	}
	h.open, err = h.Live(ctx, h.Next.Clone())
	return err
}

// Seek goes back or forward to the given offsets, into the backlog or behind it. Other partitions stay where they are.
func (h *History) Seek(_ context.Context, to source.Offsets) error {
	maps.Copy(h.Next, to)
	return h.Close()
}

// Close closes what is open.
func (h *History) Close() error {
	if h.open == nil {
		return nil
	}
	err := h.open.Close()
	h.open = nil
	return err
}

// findHistory decides, before a model's first version, how much of the stream is learnt before it: what there was at
// the first start, which the checkpoint keeps.
func (l *Learn) findHistory(ctx context.Context) error {
	if l.Backlog == nil || l.state.Published > 0 {
		l.state.History = nil
		if l.Backlog != nil && !l.backlogSaid {
			l.Log.Info("there is a model already, so nothing waits for the history", "model_id", l.ModelID, "version", l.state.Published)
			l.backlogSaid = true
		}
		return nil
	}
	if l.state.History == nil {
		if l.backlog == nil { // resolved once, because a process that goes back has not started again
			var err error
			if l.backlog, err = l.Backlog(ctx); err != nil {
				return err
			}
		}
		l.state.History = l.backlog.Clone()
	}
	if left := l.historyLeft(); left > 0 && !l.backlogSaid {
		l.Log.Info("the history is learnt before the first model is published; no row of it is skipped", "model_id", l.ModelID, "records", left)
		l.backlogSaid = true
		l.warmup.said[stats.WaitsForHistory], l.warmup.at = true, l.Now()
	}
	return nil
}

// HistoryEnd returns the end of the backlog that is learnt before the first model is published; nil if none is left.
func (l *Learn) HistoryEnd() source.Offsets {
	if l.historyLeft() == 0 {
		return nil
	}
	return l.state.History.Clone()
}

// historyLeft returns the number of offsets up to the end of the backlog.
func (l *Learn) historyLeft() (left int64) {
	for p, end := range l.state.History {
		if next, ours := l.offsets[p]; ours {
			left += max(end-next, 0)
		}
	}
	return left
}

// endHistory publishes the model of the backlog as soon as that is learnt.
func (l *Learn) endHistory() error {
	if l.state.History == nil || l.historyLeft() > 0 {
		return nil
	}
	publish := func() error { return l.publish(true) }
	if l.young() {
		publish = l.publishYoung
	}
	if err := publish(); err != nil || l.state.Published == 0 {
		return err // the backlog was too short for a model
	}
	l.Log.Info("the history is learnt", "model_id", l.ModelID, "rows", l.state.Published)
	return nil
}
