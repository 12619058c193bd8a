package pipeline

import (
	"context"
	"fmt"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// readStates reads what is known of the checkpoints. The first time it refuses them, as Learn.notOlder does, where they are from before the newest version
// that our group has published in the partition: the checkpoint topic was changed, restored, or deleted. Every snapshot is in one transaction
// with a checkpoint of its model, so the newest is among the checkpoints. Models would begin again, and publish versions again with other content
// (invariant 3). The snapshot is looked for first: what is published meanwhile is in the checkpoints as well.
func (k *KeyedLearn) readStates(ctx context.Context) error {
	var newest *snapshot.Snapshot
	if look := k.Newest != nil && !k.compared; look {
		var err error
		if newest, err = k.Newest(ctx); err != nil {
			return err
		}
	}
	if err := k.States.Read(ctx); err != nil {
		return err
	}
	k.compared = true
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

// reached is the newest version of a model that may be on the snapshot topic.
func (t *KeyedStates) reached(value string) uint64 {
	if s, known := t.index[value]; known && !s.retired {
		return s.published
	}
	return t.Last(value)
}
