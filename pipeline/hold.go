package pipeline

import (
	"context"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// HoldSource returns a source for transform.until_model: hold. It reads nothing before the first model, but its position is
// fixed at once: a group that begins at the latest record begins where the topic ended at its first start, however
// long the learner needs. Until there is a model, Read returns an empty batch every idle with the claim, so that
// committed offsets are renewed; idle must be positive. claim.Next is where reading begins.
//
// The source is opened only with the model. An open source reads ahead, and would hold memory that all readers share:
// the learner, which the model depends on, would lack it.
func HoldSource(f *Follow, open func(context.Context, source.Offsets) (Source, error), claim source.Claim, idle time.Duration) Source {
	return &held{open: open, follow: f, claim: claim, idle: idle}
}

type held struct {
	open   func(context.Context, source.Offsets) (Source, error)
	source Source // nil before the first model
	follow *Follow
	claim  source.Claim
	idle   time.Duration
}

func (h *held) Read(ctx context.Context) (source.Batch, error) {
	if h.source == nil {
		waiting, stop := context.WithTimeout(ctx, h.idle)
		defer stop()
		if err := h.follow.AwaitModel(waiting); err != nil {
			return source.Batch{Claim: h.claim}, ctx.Err()
		}
		var err error
		if h.source, err = h.open(ctx, h.claim.Next); err != nil {
			return source.Batch{}, err
		}
	}
	return h.source.Read(ctx)
}

func (h *held) Seek(ctx context.Context, next source.Offsets) error {
	if h.source != nil {
		return h.source.Seek(ctx, next)
	}
	h.claim.Next, h.claim.Epochs = next.Clone(), nil
	return nil
}

func (h *held) Close() error {
	if h.source == nil {
		return nil
	}
	return h.source.Close()
}
