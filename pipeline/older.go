package pipeline

import (
	"context"
	"fmt"
)

// notOlder refuses a checkpoint from before the newest version that its own learner has published. The two are
// written in one transaction, so such a checkpoint is a stale copy: checkpoint.topic was changed and changed back, or
// restored. Going on from it would publish versions again with other content (invariant 3).
//
// It runs once, after the fence: later checkpoints are this process's own.
func (l *Learn) notOlder(ctx context.Context, c *Checkpoint) error {
	if l.Newest == nil || l.compared {
		return nil
	}
	newest, err := l.Newest(ctx)
	if err != nil {
		return err
	}
	l.compared = true
	if newest == nil || newest.Group == "" || newest.Group != l.Checkpoints.Owner.Group || newest.Version <= c.Published {
		return nil
	}
	return &Stop{
		Err: fmt.Errorf("the checkpoint of model %q on topic %s was saved with version %d, and the same learner has published version %d on topic %s: this is an older checkpoint, and versions would be published again",
			l.ModelID, l.Checkpoints.Topic, c.Published, newest.Version, l.Topic),
		Remedy: "set checkpoint.topic to the one that was used last; or have the learner go on from the newest version: `lca-stream snapshot export -o model.arrows`, then `lca-stream snapshot import --file model.arrows`",
	}
}
