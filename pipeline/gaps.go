package pipeline

import (
	"context"
	"log/slog"
	"sync"

	"github.com/lca-stream/lca-stream/source"
)

// Gaps decides what becomes of records that retention has deleted before they were read: by rule the
// process stops, because a record has vanished (invariant 4). Methods may be called from any goroutine.
type Gaps struct {
	Skip  bool                        // source.on_gap: go on with the first record there is
	Check func(context.Context) error // that the topic is still the same: another one's offsets are no gap

	// Done is the offset up to which others have dealt with the records of a partition; nil: nobody has.
	// What lies before it may be passed over whatever Skip says: a learner need not learn every record
	// that was whitened.
	Done  func(context.Context, source.Partition) (int64, error)
	Stats *Stats
	Log   *slog.Logger

	mu      sync.Mutex
	counted map[source.Partition]int64 // up to where: after an aborted transaction the same gap comes again
}

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
	reason := "source.on_gap is skip"
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
		reason = "the transform has whitened them"
	}
	passed := g.count(gap)
	g.Log.Warn("passing records over that retention has deleted before they were read", "partition", gap.Partition.String(),
		"from", gap.Offset, "to", gap.Start, "records", passed, "because", reason)
	return nil
}

func (g *Gaps) stop(gap *source.OffsetError) error {
	return &Stop{
		Err:  gap,
		Hint: "set source.on_gap: skip to go on with what is left, or say where with `lca-stream offsets reset`",
	}
}

// count adds what was not counted before, and returns the records of this gap: at most, because
// compaction and transactions leave offsets without records.
func (g *Gaps) count(gap *source.OffsetError) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.counted == nil {
		g.counted = make(map[source.Partition]int64)
	}
	from := max(gap.Offset, g.counted[gap.Partition])
	if from < gap.Start {
		g.Stats.passed.add(reasonGap, uint64(gap.Start-from))
		g.counted[gap.Partition] = gap.Start
	}
	return gap.Start - gap.Offset
}
