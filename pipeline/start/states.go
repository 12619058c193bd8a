package start

import (
	"context"
	"fmt"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/source"
)

// What a transform keeps of series is on a topic of its own, from which it goes on at a take-over. Series of which nothing is there begin again, as new ones do.
// So a topic that was made again, or of which records were deleted, looks as one of which no row has come yet. With each offset is committed which topic it
// was, and where it began: compaction does not move that.

// series notes the topic of states as it is now, and says so if what it had held when the offset was committed is gone. What is gone cannot be had back, so
// reading goes on.
func (p *Positions) series(ctx context.Context, part source.Partition, committed source.Position) error {
	if p.States == nil {
		return nil
	}
	back := p.States(part)
	id, err := back.CurrentTopicID(ctx)
	if err != nil {
		return err
	}
	begin, err := back.Begin(ctx)
	if err != nil {
		return fmt.Errorf("the beginning of topic %s: %w", back.Topic, err)
	}
	now := source.States{Topic: back.Topic, TopicID: id, Begin: begin}
	if before, seen := p.states.Swap(part, &now); seen && *before.(*source.States) == now {
		return nil
	}
	note, err := source.ParseNote(committed.Metadata)
	was := note.States
	if err != nil || was == nil || was.Topic != back.Topic {
		return err
	}
	what := ""
	switch {
	case differ(was.TopicID, id):
		what = "it was deleted and created again"
	case begin > was.Begin:
		what = "records were deleted from it, which must be compacted alone"
	default:
		return nil
	}
	p.Log.WarnContext(logs.Unlimited(ctx), "what was known of series is lost: those that are not on the topic of states begin again, and an episode of theirs that is open is not closed",
		"topic", back.Topic, "reason", what, "partition", part.String(), "offset", committed.Next)
	return nil
}
