package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/pipeline/stats"
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
	Stats *stats.Stats
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
	return checkpoint.ShortList(names)
}

// claimed is a list of offsets that is made only if it is logged.
type claimed struct{ next source.Offsets }

// LogValue returns the list.
func (c claimed) LogValue() slog.Value { return slog.StringValue(OffsetList(c.next)) }

// OffsetList gives offsets of one topic as 0=12, 1=7.
func OffsetList(at source.Offsets) string {
	var all []string
	for _, p := range at.Partitions() {
		all = append(all, fmt.Sprintf("%d=%d", p.ID, at[p]))
	}
	return checkpoint.ShortList(all)
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
		if !retry.Sleep(ctx, retakeAfter) {
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

// openings reports a member as ready once all of its partitions are open. Until then the rows of the others are not
// whitened by any process.
type openings struct {
	stats *stats.Stats // nil: not shown

	mu    sync.Mutex // a leaf in the lock order; keeps the notes in the order of events
	owned int
	open  int
}

// own begins a generation.
func (o *openings) own(partitions int) { o.change(func() { o.owned, o.open = partitions, 0 }) }

func (o *openings) opened() { o.change(func() { o.open++ }) }

func (o *openings) closed() { o.change(func() { o.open-- }) }

func (o *openings) change(how func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	how()
	if o.stats == nil {
		return
	}
	r := stats.Readiness{Ready: o.open == o.owned}
	switch {
	case !r.Ready:
		r.Reason = fmt.Sprintf("opening partitions: %d of %d are open", o.open, o.owned)
	case o.owned == 0: // not a fault: there are more instances than partitions
		r.Reason = "standby: no partitions"
	}
	o.stats.SetReady(r)
}

// left ends a generation; the next one may bring other partitions.
func (o *openings) left() {
	if o.stats != nil {
		o.stats.SetReady(stats.Readiness{Reason: "waiting for partitions"})
	}
}

// absentFor is how long brokers may deny a topic that a running process has worked with. A broker that has just
// started may not know it yet. After that time the topic counts as deleted.
const absentFor = 30 * time.Second

// absence remembers since when brokers have denied a topic.
type absence struct{ since time.Time }

// final reports errors that no retry can cure, as the function of that name does, and a topic that stays away.
func (a *absence) final(err error) bool {
	if !errors.Is(err, source.ErrNoTopic) {
		a.since = time.Time{}
		return retry.Final(err)
	}
	if a.since.IsZero() {
		a.since = time.Now()
	}
	return time.Since(a.since) >= absentFor
}

// open creates a partition's loop. A coordinator that loads, or a topic between two leaders, may take minutes, and
// often just while a group divides its partitions. A process that ended because of that would be restarted, only to
// wait again. A wrong address was already found at the first start.
func (t *Transforms) open(ctx context.Context, p source.Partition, claim source.Claim) (*Loop, error) {
	var gone absence
	for wait := retry.First; ; wait = retry.Longer(wait) {
		loop, err := t.Open(ctx, p, claim)
		if err == nil || ctx.Err() != nil {
			return loop, err
		}
		passing := source.Passing(err) || errors.Is(err, source.ErrNoTopic)
		if gone.final(err) || !passing {
			return nil, err
		}
		t.Log.Warn("cannot take up a partition yet", "partition", p.String(), "error", err, "retry_in", wait)
		if !retry.Sleep(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

// Renewal commits again offsets that have not moved for a while. Brokers forget an offset that was committed
// offsets.retention.minutes ago if its group has no members, even while a process with static assignment uses it. The
// process before a start may have left it nearly that long ago, so the first renewal comes in the first quiet moment.
// The source must return empty batches in that time.
//
// Start markers have a time of their own: a feed that is never quiet for that long would keep those that it began with, and one on a checkpoint topic that
// is new would have none. They go with the first commit after a start, with one each interval, and with the last one.
type Renewal struct {
	Every   time.Duration                       // interval, well below offsets.retention.minutes
	Markers func(source.Offsets) []sink.Message // returns the start markers, which are renewed too; may be nil
}

// Marked is a stage that has to know which start markers are on the topic.
type Marked interface {
	// Marked says that models go on at these offsets, or later, where the committed ones are gone.
	Marked(source.Offsets)
}

// marks returns the start markers to put with offsets, if it is time; now: in any case.
func (l *Loop) marks(ctx context.Context, next source.Offsets, now bool) []sink.Message {
	if l.Renew == nil || l.Renew.Markers == nil || !now && !l.markedAt.IsZero() && time.Since(l.markedAt) < l.Renew.Every {
		return nil
	}
	if l.Outputs != nil && !l.markedAt.IsZero() { // the start has looked
		l.Outputs.Look(ctx, l.kept.Next)
	}
	return l.Renew.Markers(next)
}

// marked notes that start markers are on the topic.
func (l *Loop) marked(marks []sink.Message, next source.Offsets) {
	if len(marks) == 0 {
		return
	}
	l.markedAt = time.Now()
	if m, ok := l.Stage.(Marked); ok {
		m.Marked(next)
	}
}

// renew commits the committed offsets once more if it is time. The claim of the current batch may be ahead of them
// when a stage gathers.
func (l *Loop) renew(ctx context.Context) error {
	if l.Renew == nil || len(l.kept.Next) == 0 || !l.putAt.IsZero() && time.Since(l.putAt) < l.Renew.Every {
		return nil
	}
	claim := l.claim
	if !maps.Equal(claim.Next, l.kept.Next) { // otherwise the source knows the epochs, including those of what was committed before the start
		claim.Next, claim.Epochs = l.kept.Next, l.kept.Epochs
	}
	marks := l.marks(ctx, l.kept.Next, true)
	if err := l.send(ctx, nil, marks, claim); err != nil {
		l.Stats.TransactionsAborted.Add(1)
		if retry.Final(err) {
			return err
		}
		return l.rewind(ctx, err)
	}
	l.putAt = time.Now()
	l.marked(marks, l.kept.Next)
	return nil
}

// rest does the periodic work of a batch that gives nothing to put.
func (l *Loop) rest(ctx context.Context) error {
	if err := l.renew(ctx); err != nil {
		return err
	}
	return l.check(ctx)
}

// check ends a loop whose work another owner has taken. An import, a replay, a reset of offsets or a second process
// fences it. Without anything to put it would not notice, and would show an outdated model.
func (l *Loop) check(ctx context.Context) error {
	k, ok := l.Sink.(Checker)
	if !ok || l.Check == 0 || time.Since(l.putAt) < l.Check || time.Since(l.askedAt) < l.Check {
		return nil
	}
	err := k.Check(ctx)
	l.askedAt = time.Now()
	if errors.Is(err, sink.ErrFenced) {
		return err
	}
	if err != nil {
		l.Log.Debug("it is not known whether the work is still ours", "error", err)
	}
	return nil
}
