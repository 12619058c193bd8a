package pipeline

import (
	"context"
	"errors"

	"github.com/lca-stream/lca-stream/source"
)

// Takeover starts a loop, whichever process did its work before. The order upholds invariant 5. Fence ends the former
// owner and whatever it left open. Only then the state that it left is read, because before that it may still change.
// Then the model that it wrote with is caught up with, and last of all reading begins.
type Takeover struct {
	Fence   func(context.Context) (Sink, error)                   // opens the sink
	Stage   func(Sink) (Stage, error)                             // its Rewind returns where reading begins
	CatchUp func(context.Context) error                           // nil: nothing to catch up with
	Read    func(context.Context, source.Offsets) (Source, error) // opens the source at the offsets that Rewind returns
}

// Open returns a loop with Sink, Stage and Source; the caller fills in the rest. After an error nothing is left open.
func (t *Takeover) Open(ctx context.Context) (*Loop, error) {
	k, err := t.Fence(ctx)
	if err != nil {
		return nil, err
	}
	loop, err := t.open(ctx, k)
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return loop, nil
}

func (t *Takeover) open(ctx context.Context, k Sink) (*Loop, error) {
	stage, err := t.Stage(k)
	if err != nil {
		return nil, err
	}
	start, err := stage.Rewind(ctx)
	if err != nil {
		return nil, err
	}
	if t.CatchUp != nil {
		if err := t.CatchUp(ctx); err != nil {
			return nil, err
		}
	}
	src, err := t.Read(ctx, start)
	if err != nil {
		return nil, err
	}
	return &Loop{Source: src, Stage: stage, Sink: k, Start: start}, nil
}
