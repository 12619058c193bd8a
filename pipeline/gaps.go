package pipeline

import (
	"context"
	"log/slog"
	"sync"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/source"
)

// Gaps decides what becomes of records that retention has deleted before they were read: by rule the
// process stops, because a record has vanished (invariant 4). Methods may be called from any goroutine.
type Gaps struct {
	Skip  bool                        // source.on_gap: go on with the first record there is
	Check func(context.Context) error // that the topic is still the same: another one's offsets are no gap

	// Learner says whose gaps these are. What a learner leaves out is counted by itself, because it may
	// have been whitened, and where it was not, the transform has counted it.
	Learner bool

	// Done is the offset up to which a transform has read a partition; nil: there is none. What lies before
	// it may be passed over whatever Skip says: a learner need not learn every record.
	Done  func(context.Context, source.Partition) (int64, error)
	Stats *Stats
	Log   *slog.Logger

	mu      sync.Mutex
	counted map[source.Partition]span
}

// span is the last gap that was counted: after an aborted transaction it comes again, and may have grown.
type span struct{ from, to int64 }

// Pass returns nil if reading may go on at gap.Start, and otherwise why it may not.
func (g *Gaps) Pass(ctx context.Context, gap *source.OffsetError) error {
	if gap.Offset >= gap.Start {
		return gap // beyond the end: another topic, or a log that was truncated
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

// pass counts, and says each gap once, whatever else was said a moment ago: this line alone says which
// records these were. Retention moves a log's start every few minutes at most, which bounds the lines.
func (g *Gaps) pass(ctx context.Context, gap *source.OffsetError, because string) {
	more := g.count(gap)
	if more == 0 {
		return
	}
	what := "passing records over that retention has deleted before they were read"
	if g.Learner {
		what = "leaving records out of what is learnt: retention has deleted them before the learner read them"
		g.Stats.LearnerGaps.Add(more)
	} else {
		g.Stats.passed.add(reasonGap, more)
	}
	g.Log.WarnContext(logs.Unlimited(ctx), what, "partition", gap.Partition.String(),
		"from", gap.Offset, "to", gap.Start, "records", gap.Start-gap.Offset, "because", because)
}

func (g *Gaps) stop(gap *source.OffsetError) error {
	return &Stop{
		Err:  gap,
		Hint: "set source.on_gap: skip to go on with what is left, or say where with `lca-stream offsets reset`",
	}
}

// count returns how many records of a gap were not counted before: at most, because compaction and
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
