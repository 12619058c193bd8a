package pipeline

import (
	"context"
	"fmt"

	"github.com/lca-stream/lca-stream/source"
)

// Restart begins another pass over the same rows: the model stays, the offsets go back. What is left of the pass before is
// learnt at once, because the first rows do not follow the last ones.
func (l *Learn) Restart(ctx context.Context, start source.Offsets) error {
	if l.learner != nil {
		if rest := l.batcher.Rest(); len(rest.IDs) > 0 {
			if err := l.minibatch(ctx, rest); err != nil {
				return err
			}
			if err := l.endSnapshot(); err != nil {
				return err
			}
			l.batcher.Reset()
		}
		l.released += uint64(l.learner.NextPass())
	}
	l.offsets, l.unusable = start.Clone(), Unusable{}
	return nil
}

// noModel says why the rows of a replay make no model.
func (l *Learn) noModel() *Stop {
	i, features := l.learner.Info(), len(l.features.Names)
	switch w, _ := l.learner.Waiting(); {
	case w.Constant:
		return &Stop{Err: fmt.Errorf("all %d features are constant in %d rows, or vary by less than rounding shows", features, i.Rows), Remedy: "name features that vary, in units in which their squares are numbers"}
	case 2*i.Gated > i.Rows:
		return &Stop{Err: fmt.Errorf("%d of %d rows have numbers whose squares are too large", i.Gated, i.Rows), Remedy: "give the features in other units, or leave them out"}
	default:
		return &Stop{Err: fmt.Errorf("%d rows are too few to learn a metric of %d features: the first takes %d", i.Rows, features, w.Wanted), Remedy: "replay a longer range, or name fewer features"}
	}
}

// Unusable returns what could not be learnt from since the start or the last Restart.
func (l *Learn) Unusable() Unusable { return l.unusable }

// SetAside counts rows that a replay read and did not learn, over all passes.
type SetAside struct {
	Outliers    uint64 // each is far from all others
	Passing     uint64 // of changes that did not last
	Unconfirmed uint64 // of a change that the range ends with, before it could be believed
}

// SetAside returns what a replay has not learnt.
func (l *Learn) SetAside() SetAside {
	if l.learner == nil {
		return SetAside{}
	}
	return SetAside{Outliers: l.learner.Info().Gated - l.released, Passing: l.released, Unconfirmed: uint64(l.learner.Quarantined())}
}
