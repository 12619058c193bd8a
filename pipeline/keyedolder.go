package pipeline

import (
	"context"
	"fmt"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// readStates reads what is known of the checkpoints. The first time it refuses those from which a learner cannot go on, before new models begin.
func (k *KeyedLearn) readStates(ctx context.Context) error {
	if k.compared {
		return k.States.Read(ctx)
	}
	var newest *snapshot.Snapshot
	if k.Newest != nil {
		var err error
		if newest, err = k.Newest(ctx); err != nil {
			return err
		}
	}
	if err := k.States.Read(ctx); err != nil {
		return err
	}
	if err := k.notOlder(newest); err != nil {
		return err
	}
	if err := k.continues(ctx); err != nil {
		return err
	}
	k.compared = true
	return nil
}

// notOlder refuses checkpoints, as Learn.notOlder does, from before the newest version that our group has published in the partition: the checkpoint topic was changed, restored, or deleted. Every snapshot is in one transaction
// with a checkpoint of its model, so the newest is among the checkpoints. Models would begin again, and publish versions again with other content
// (invariant 3). The snapshot is looked for first: what is published meanwhile is in the checkpoints as well.
func (k *KeyedLearn) notOlder(newest *snapshot.Snapshot) error {
	if newest == nil || newest.Group != k.States.Owner.Group {
		return nil
	}
	base, partition, value, ok := modelkey.Split(newest.ModelID)
	if !ok || base != k.ModelID || partition != k.Partition.ID || newest.Version <= k.States.reached(string(value)) {
		return nil
	}
	return &Stop{
		Err: fmt.Errorf("this learner has published version %d of model %q on topic %s, and topic %s has no checkpoint of it, or an older one: versions would be published again",
			newest.Version, newest.ModelID, k.Topic, k.States.Topic),
		Remedy: "set checkpoint.topic to the one that was used last, or another snapshot.model_id to learn all models again (with `lca-stream replay`, where the topic has their rows)",
	}
}

// continues refuses settings with which the model that was saved last cannot go on, although no row of it has come yet: models that began
// with others would end the learner once the settings are set back.
func (k *KeyedLearn) continues(ctx context.Context) error {
	last, state := "", keyedState{at: -1}
	for value, s := range k.States.index {
		if !s.retired && s.at > state.at {
			last, state = value, s
		}
	}
	if state.at < 0 {
		return nil
	}
	c, err := k.States.fetch(ctx, last, state)
	if c == nil || err != nil { // it is not there any more, as when another learner has the partition
		return err
	}
	return k.newOne(last).continues(c)
}

// lost is why a learner gives a partition up: the checkpoint of a model that it knows is not on the topic any more. Another learner, which
// has the partition by now, has retired the model.
func lost(model string) error {
	return fmt.Errorf("pipeline: model %q has lost its checkpoint: %w", model, sink.ErrFenced)
}

// reached is the newest version of a model that may be on the snapshot topic.
func (t *KeyedStates) reached(value string) uint64 {
	if s, known := t.index[value]; known && !s.retired {
		return s.published
	}
	return t.Last(value)
}
