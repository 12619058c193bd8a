package pipeline

import (
	"context"
	"log/slog"
	"sync"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/source"
)

// Gaps decides about records that retention deleted before they were read. By default the process stops, because
// records are lost (invariant 4). Methods may be called from any goroutine.
type Gaps struct {
	Skip  bool                        // source.on_gap: skip: go on with the first available record
	Check func(context.Context) error // verifies that the topic is still the same, because offsets of another topic are not a gap

	// Learner marks a learner's gaps. They are counted separately, because the transform may have whitened the
	// records, and otherwise has counted them itself.
	Learner bool

	// Keyed marks those of models by key. They may have learnt some of the records, because each model knows by itself what it has learnt.
	Keyed bool

	// Done returns the offset up to which a transform has read a partition; nil: there is no transform. Records
	// before it may be skipped independently of Skip, because a learner need not learn every record.
	Done  func(context.Context, source.Partition) (int64, error)
	Stats *Stats
	Log   *slog.Logger

	mu      sync.Mutex
	counted map[source.Partition]span
}

// span is the last gap that was counted. After an aborted transaction it is met again, and may have grown.
type span struct{ from, to int64 }

// Pass returns nil if reading may go on at gap.Start, and otherwise the reason to stop.
func (g *Gaps) Pass(ctx context.Context, gap *source.OffsetError) error {
	if gap.Offset >= gap.Start {
		return gap // behind the end: another topic, or a truncated log
	}
	if g.Check != nil {
		if err := g.Check(ctx); err != nil {
			return err
		}
	}
	because := "source.on_gap is skip"
	if !g.Skip {
		if g.Done == nil {
			return g.stop(gap)
		}
		done, err := g.Done(ctx, gap.Partition)
		if err != nil {
			return err
		}
		if done < gap.Start {
			return g.stop(gap)
		}
		because = "the transform has read this partition farther: it has whitened these records, or has said what became of them"
	}
	g.pass(ctx, gap, because)
	return nil
}

// pass counts a gap and logs it once, past any limit on repeated lines, because only this line tells which records
// were lost. Retention moves the start of a log every few minutes at most, which bounds the number of lines.
func (g *Gaps) pass(ctx context.Context, gap *source.OffsetError, because string) {
	more := g.count(gap)
	if more == 0 {
		return
	}
	what := "passing records over that retention has deleted before they were read"
	if g.Learner {
		what = "leaving records out of what is learnt: retention has deleted them before the learner read them"
		if g.Keyed {
			what += ", except for those that models by key have learnt already"
		}
		g.Stats.LearnerGaps.Add(more)
	} else {
		g.Stats.Pass(reasonGap, more)
	}
	g.Log.WarnContext(logs.Unlimited(ctx), what, "partition", gap.Partition.String(),
		"from", gap.Offset, "to", gap.Start, "records", gap.Start-gap.Offset, "because", because)
}

func (g *Gaps) stop(gap *source.OffsetError) error {
	remedy := "set source.on_gap: skip to go on with what is left, or say where with `lca-stream offsets reset`"
	if g.Keyed {
		remedy = "set source.on_gap: skip to go on with what is left: of what is gone, only rows that their model had not learnt are missing, and no row is learnt twice. " +
			"`lca-stream offsets reset` has all models learn everything from a place on, again too"
	}
	return &Stop{Err: gap, Remedy: remedy}
}

// count returns how many records of a gap were not counted before. It is an upper bound, because compaction and
// transactions leave offsets without records.
func (g *Gaps) count(gap *source.OffsetError) (more uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.counted == nil {
		g.counted = make(map[source.Partition]span)
	}
	now := span{gap.Offset, gap.Start}
	known, ok := g.counted[gap.Partition]
	if !ok || known.to < now.from || now.to < known.from {
		g.counted[gap.Partition] = now
		return uint64(now.to - now.from)
	}
	before := max(known.from-now.from, 0)
	after := max(now.to-known.to, 0)
	g.counted[gap.Partition] = span{min(known.from, now.from), max(known.to, now.to)}
	return uint64(before + after)
}
