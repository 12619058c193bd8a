package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
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

// Members returns ownerships one after the other: of a consumer group, or of a static list once.
type Members interface {
	Next(context.Context) (Ownership, error)
}

// Transforms runs one loop for each owned partition, generation after generation, until ctx ends.
type Transforms struct {
	Members Members
	// Open creates the loop of one partition. It must first fence the former owner by opening the sink, and only then
	// read the committed offsets: in the other order the former owner may still move the offsets after they were read
	// (invariant 5).
	Open func(context.Context, source.Partition, source.Claim) (*Loop, error)
	Log  *slog.Logger
	// Stats, unless nil, shows whether all owned partitions are open.
	Stats *Stats
	// Stage is the loops' label in the metrics. Default transform.
	Stage string

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

// generation works until the ownership ends. Every goroutine that it starts has returned by then.
func (t *Transforms) generation(ctx context.Context, own Ownership) error {
	live, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(own.Context(), cancel)()
	g, gctx := errgroup.WithContext(live)
	t.openings.own(len(own.Owned()))
	if t.Stats != nil {
		t.Stats.SetOwned(cmp.Or(t.Stage, "transform"), own.Owned())
	}
	defer t.openings.left()
	t.Log.Info("partitions are assigned", "partitions", partitionList(own.Owned()))
	for _, p := range own.Owned() {
		g.Go(func() error { return t.partition(gctx, p, own.Claim()) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	<-live.Done() // fenced or idle: wait for the next generation instead of spinning
	if ctx.Err() == nil {
		t.Log.Info("partitions are given back until the group divides them again", "partitions", partitionList(own.Owned()))
	}
	return nil
}

// partitionList names partitions of one topic by their numbers.
func partitionList(parts []source.Partition) string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = strconv.Itoa(int(p.ID))
	}
	return shortList(names)
}

// claimed is a list of offsets that is made only if it is logged.
type claimed struct{ next source.Offsets }

// LogValue returns the list.
func (c claimed) LogValue() slog.Value { return slog.StringValue(offsetList(c.next)) }

// offsetList gives offsets of one topic as 0=12, 1=7.
func offsetList(at source.Offsets) string {
	var all []string
	for _, p := range at.Partitions() {
		all = append(all, fmt.Sprintf("%d=%d", p.ID, at[p]))
	}
	return shortList(all)
}

// retakeAfter is longer than a member's heartbeat interval: by then a former owner knows of the new generation, and
// does not fence us in turn.
const retakeAfter = 5 * time.Second

// partition runs one loop after the other until the partition is lost. That ends only this call.
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
			return err // two processes have the same static partition: one of them must stop
		}
		// According to the group the partition is ours for as long as ctx lives. So it was fenced by a former owner,
		// or by the broker, which fences the owner of a transaction that outlived its timeout, as in a long outage.
		// No other process will take it up, so it is taken back.
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
	t.Log.Info("a partition is read from its committed offset", "partition", p.String(), "offset", loop.Start[p])
	t.openings.opened()
	defer t.openings.closed()
	defer func() { _ = loop.Sink.Close() }()
	defer func() { _ = loop.Source.Close() }()
	if held, ok := loop.Stage.(interface{ Close() }); ok {
		defer held.Close()
	}
	return loop.Run(ctx)
}
