package pipeline

import (
	"context"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// Hold returns src as it is read under transform.until_model: hold. Nothing of it is read before the first
// model, and yet its position is taken: a group that begins at the latest record begins when it is first
// started, however long the learner needs. Until the model is there, Read returns an empty batch every
// idle, with the claim, so that committed offsets are renewed; idle must be positive.
func (f *Follow) Hold(src Source, claim source.Claim, idle time.Duration) Source {
	return &held{Source: src, follow: f, claim: claim, idle: idle}
}

type held struct {
	Source
	follow *Follow
	claim  source.Claim
	idle   time.Duration
}

func (h *held) Read(ctx context.Context) (source.Batch, error) {
	if h.follow.Current() == nil {
		waiting, stop := context.WithTimeout(ctx, h.idle)
		defer stop()
		if err := h.follow.AwaitModel(waiting); err != nil {
			return source.Batch{Claim: h.claim}, ctx.Err()
		}
	}
	return h.Source.Read(ctx)
}

func (h *held) Seek(ctx context.Context, next source.Offsets) error {
	h.claim.Next, h.claim.Epochs = next.Clone(), nil
	return h.Source.Seek(ctx, next)
}
