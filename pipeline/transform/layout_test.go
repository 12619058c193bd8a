package transform

import (
	"errors"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
)

// A transform refuses models that its own group has published for values from another place. Those of other groups are not its own, and
// nothing is known of what earlier builds have published.
func TestModelsOfAnotherByAreRefused(t *testing.T) {
	for by, refused := range map[string]bool{"key": false, "": false, "header:machine": true} {
		for group, ours := range map[string]bool{"g": true, "other": false} {
			topic := newKeyedTopic(t, 2)
			s := snapshotOf(modelsOf(t, 1)[0], "press", 100)
			s.By, s.Group = by, group
			topic.publish(s)
			indexed := keyedModels(t, topic, modelkey.By{Place: modelkey.Key}, 1<<30)
			indexed.Group = "g"
			ended := make(chan error, 2)
			indexed.Failed = func(err error) { ended <- err }
			go func() { ended <- indexed.CatchUp(t.Context(), 0) }()
			err := <-ended
			if stopped := errors.As(err, new(*reject.Stop)); stopped != (refused && ours) {
				t.Errorf("model.by %q of group %s: %v", by, group, err)
			}
		}
	}
}
