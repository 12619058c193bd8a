package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Ownership is a set of partitions that this process may work on until Context ends.
type Ownership interface {
	Context() context.Context
	Claim() source.Claim // Group, Member, InstanceID and Generation; Next is nil
	Owned() []source.Partition
	Done() // every loop of this ownership has returned
}

// Members hands out ownerships one after the other: a consumer group, or a static list once.
type Members interface {
	Next(context.Context) (Ownership, error)
}

// Transforms runs one loop for each owned partition, generation after generation, until ctx ends.
type Transforms struct {
	Members Members
	// Open makes the loop of one partition. It must first fence the former owner (open the sink),
	// and only then read the committed offsets: the other order reads offsets that the former
	// owner may still move (invariant 5).
	Open func(context.Context, source.Partition, source.Claim) (*Loop, error)
	Log  *slog.Logger
	// Stats, unless nil, is told whether all owned partitions are open.
	Stats *Stats

	openings openings
}

// Run returns nil when ctx ends and the first fatal error otherwise.
func (t *Transforms) Run(ctx context.Context) error {
	t.openings.stats = t.Stats
	for {
		own, err := t.Members.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("pipeline: join: %w", err)
		}
		err = t.generation(ctx, own)
		own.Done()
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// generation works until the ownership ends; every goroutine it starts has returned by then.
func (t *Transforms) generation(ctx context.Context, own Ownership) error {
	live, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(own.Context(), cancel)()
	g, gctx := errgroup.WithContext(live)
	t.openings.own(len(own.Owned()))
	defer t.openings.left()
	for _, p := range own.Owned() {
		g.Go(func() error { return t.partition(gctx, p, own.Claim()) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	<-live.Done() // fenced or idle: wait for the next generation instead of spinning
	return nil
}

// retakeAfter is longer than a member's heartbeat interval: by then a former owner has heard of the
// new generation, and will not fence us back.
const retakeAfter = 5 * time.Second

// partition runs one loop after the other until the partition is lost, which ends this and nothing
// else.
func (t *Transforms) partition(ctx context.Context, p source.Partition, claim source.Claim) error {
	for {
		err := t.loop(ctx, p, claim)
		static := claim.Member == ""
		switch {
		case errors.Is(err, sink.ErrRevoked):
			t.Log.Info("partition moved to another instance", "partition", p.String())
			return nil
		case !errors.Is(err, sink.ErrFenced):
			return err
		case static:
			return err // two processes have the same static partition: one of them must go
		}
		// The group's word is that the partition is ours, for as long as ctx lives. Then it was fenced
		// by a former owner, or by the broker, which does so to a transaction that outlived its
		// timeout, as in a long outage. No other process will take it up, so it is taken back.
		t.Log.Warn("partition fenced; taking it back unless the group moves it", "partition", p.String(), "in", retakeAfter)
		if !sleep(ctx, retakeAfter) {
			return nil
		}
	}
}

func (t *Transforms) loop(ctx context.Context, p source.Partition, claim source.Claim) error {
	loop, err := t.open(ctx, p, claim)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	t.openings.opened()
	defer t.openings.closed()
	defer func() { _ = loop.Sink.Close() }()
	defer func() { _ = loop.Source.Close() }()
	return loop.Run(ctx)
}
