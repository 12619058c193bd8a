package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// errOtherFeatures is wrapped by the error about a model whose features are not those that are whitened.
var errOtherFeatures = errors.New("other features")

const otherFeaturesRemedy = "set another snapshot.model_id, because another space needs another model, or source.features to those of the model"

// fits refuses a model whose features are not those of source.features or, if that is empty, of the current model:
// output rows would change their width in the middle of a topic, or none would have the features any more.
func (f *Follow) fits(s *snapshot.Snapshot) error {
	now := f.current.Load()
	var err error
	switch {
	case !minibatch.Chosen(f.Features, s.Features):
		err = fmt.Errorf("%w: version %d of model %q %s", errOtherFeatures, s.Version, f.ModelID, OtherFeatures(s.Features, "source.features now says", f.Features))
	case len(f.Features) == 0 && now != nil && !slices.Equal(now.Features, s.Features):
		err = fmt.Errorf("%w: version %d of model %q %s", errOtherFeatures, s.Version, f.ModelID,
			OtherFeatures(s.Features, fmt.Sprintf("version %d, which is current, has", now.Version), now.Features))
	default:
		return nil
	}
	if f.misfit == nil || s.Version > f.unfit {
		f.misfit, f.unfit = &Stop{Err: err, Remedy: otherFeaturesRemedy}, s.Version
	}
	return f.passOver("a model of other features is passed over", s.Version, fmt.Errorf("%w: %s", err, otherFeaturesRemedy))
}

// newer is about a newest version that a newer release has written. At the start it ends the process: with an older
// version rows would go back, and one that can be read may never come. A process that has a model keeps it.
func (f *Follow) newer() error {
	version, err := f.read.Newer(f.ModelID)
	if err == nil || f.Pin != 0 {
		return nil
	}
	if !f.started {
		return &Stop{Err: err, Remedy: "use that release; or go on under another snapshot.model_id from an export that this one has made"}
	}
	_ = f.passOver("a model of a newer release is passed over", version, err)
	return nil
}

// passOver notes a version that is not used. The newest such version is logged, once.
func (f *Follow) passOver(what string, version uint64, err error) error {
	if version > f.passed {
		f.passed = version
		f.Log.Error(what, "error", err)
		f.Stats.SetPassedOver(what + ": " + err.Error())
	}
	return err
}

// begun is called when the start of the topic has been read. If it holds models, but only with other features, the
// configuration has changed: waiting would not help, because no learner goes on from one to the other.
func (f *Follow) begun() error {
	if f.started {
		return nil
	}
	if f.current.Load() == nil && f.misfit != nil && f.Pin == 0 {
		return f.misfit
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = true
	return nil
}

// AwaitStart waits until Run has read enough of the topic to know the newest model, or until ctx or Run ends.
func (f *Follow) AwaitStart(ctx context.Context) error {
	return f.await(ctx, func() bool { return f.started })
}
