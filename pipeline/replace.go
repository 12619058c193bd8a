package pipeline

import (
	"fmt"
	"slices"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// Replace returns the checkpoint with which a learner goes on from s, which another program has made, at the position
// of c. It belongs in the transaction that publishes s; slots are the topic's slots after that. Without it the
// learner would go on from its own model, and publish that again.
func (l *Learn) Replace(c *Checkpoint, s *snapshot.Snapshot, slots snapshot.Slots) ([]sink.Message, error) {
	next, err := l.replaced(c, s, slots)
	if err != nil {
		return nil, err
	}
	return l.Checkpoints.Messages(next)
}

func (l *Learn) replaced(c *Checkpoint, s *snapshot.Snapshot, slots snapshot.Slots) (*Checkpoint, error) {
	if !slices.Equal(c.Features, s.Features) {
		return nil, &Stop{
			Err:    fmt.Errorf("model %q %s", l.ModelID, OtherFeatures(c.Features, "this one has", s.Features)),
			Remedy: "publish it under an id of its own",
		}
	}
	learner, batcher, err := l.newLearner(len(s.Features))
	if err != nil {
		return nil, err
	}
	defer learner.Close()
	model := *s.Model
	model.Info.Rows = s.Version
	if err := learner.WarmStart(&model); err != nil {
		return nil, &Stop{Err: fmt.Errorf("the learner of model %q cannot go on from this one: %w", l.ModelID, err), Remedy: "publish it under an id of its own"}
	}
	next := *c
	next.Sequence++
	next.Base = 0 // the learner counts from the version
	next.Snapshots, next.Published, next.Parent = s.Number+1, s.Version, s.Version
	next.Slots, next.Digest, next.Owner = slots, l.digest(), l.Checkpoints.Owner
	if next.Learner, err = learner.AppendBinary(nil); err != nil {
		return nil, fmt.Errorf("pipeline: replace the model: %w", err)
	}
	if next.Batcher, err = batcher.AppendBinary(nil); err != nil {
		return nil, fmt.Errorf("pipeline: replace the model: %w", err)
	}
	return &next, nil
}
