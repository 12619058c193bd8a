package offsets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	wire "github.com/segmentio/kafka-go/protocol"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Command is `lca-stream offsets`.
func Command(p *app.Program) *cobra.Command {
	return app.Group(&cobra.Command{
		Use:   "offsets",
		Short: "Show or reset where transform and learner read on",
		Long: `Where the transform reads on is the committed offset of source.group, where the learner does is in its
checkpoint. show puts both side by side, with what else is known; reset moves them while no process runs.`,
	}, offsetsShowCommand(p), offsetsResetCommand(p))
}

// stages are the two readers of the source topic.
const (
	stageAll       = "all"
	stageLearn     = "learn"
	stageTransform = "transform"
)

func offsetsResetCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "reset",
		Short: "Move where transform and learner read on",
		Long: `Commits other offsets, and moves the learner's checkpoint; the model stays. Says what will be read again or
left out. Stop the program first: reset refuses while the group has members or a transaction is open. A learner
without model.by, and what has source.partitions, are members of nothing: reset looks for --watch whether they
commit, and refuses if they do. One that has nothing to do for so long cannot be seen: it is fenced, ends with exit
code 3, and goes on at the new place when it is started again.
With model.by all models of a partition are moved: rows from the new place on are learnt again, as far as they were.
--to is earliest, latest, a time such as 2026-01-31, 2026-01-31T12:00:00Z or 2h (ago), or PARTITION=OFFSET[,...],
which leaves other partitions as they are: where the group has not begun, they begin at source.start_offset now. --dry-run says what would be done, and does not look for processes.`,
		Example: "  lca-stream offsets reset -c stream.yaml --to 0=1042,1=990\n  lca-stream offsets reset -c stream.yaml --to earliest --stage learn",
	}
	o := p.ConfigFlags(c)
	o.Needed = true
	to := c.Flags().String("to", "", "where to read on: earliest, latest, a time, or `PARTITION=OFFSET,...`")
	dryRun := c.Flags().Bool("dry-run", false, "say what would be read again or left out, and change nothing")
	stage := c.Flags().String("stage", stageAll, "whose position is moved: learn, transform or all")
	app.Choices(c, "stage", stageLearn, stageTransform, stageAll)
	watch := c.Flags().Duration("watch", 3*time.Second, "how long to look whether a process is at work; longer than snapshot.every to be sure of a learner that reads; 0 = not at all")
	return app.Command(c, func(ctx context.Context, _ []string) error {
		if *to == "" {
			return app.UsageError("--to is missing: %s", system.WantPlace)
		}
		if !slices.Contains([]string{stageAll, stageLearn, stageTransform}, *stage) {
			return app.UsageError("--stage %s: want learn, transform or all", *stage)
		}
		place, err := system.ParsePlace("--to", *to, time.Now())
		if err != nil {
			return err
		}
		s, err := system.Connect(ctx, p, o)
		if err != nil {
			return err
		}
		defer s.Cluster.Close()
		r := &reset{System: s, watch: *watch, dryRun: *dryRun, say: func(format string, args ...any) { fmt.Fprintf(p.Stdout, format+"\n", args...) }}
		return s.Cluster.Explain(r.run(ctx, place, *stage))
	})
}

// reset moves positions.
type reset struct {
	*system.System
	watch  time.Duration
	dryRun bool
	say    func(format string, args ...any)
}

func (r *reset) run(ctx context.Context, where system.Place, stage string) error {
	c := r.Config
	all, err := r.Partitions(ctx, c.Source.Topic)
	if err != nil {
		return err
	}
	to, err := r.At(ctx, all, where)
	if err == nil {
		err = r.within(ctx, to)
	}
	if err != nil {
		return fmt.Errorf("--to %s: %w", where.Text, err)
	}
	if r.Keyed() {
		if err := r.KeyedTopics(ctx); err != nil {
			return err
		}
	}
	if r.dryRun {
		r.say("a dry run: nothing is changed")
	} else if err := r.stopped(ctx, stage, to); err != nil {
		return err
	}
	if stage != stageLearn {
		if err := r.transform(ctx, to); err != nil {
			return err
		}
	}
	switch {
	case stage == stageTransform:
		return nil
	case r.Keyed():
		return r.learnKeyed(ctx, to)
	}
	return r.learn(ctx, to)
}

// within refuses offsets without records.
func (r *reset) within(ctx context.Context, to source.Offsets) error {
	parts := to.Partitions()
	first, err := source.ListOffsets(ctx, r.Cluster, parts, source.Earliest)
	if err != nil {
		return err
	}
	end, err := source.ListOffsets(ctx, r.Cluster, parts, source.Latest)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if to[p] < first[p] || to[p] > end[p] {
			return fmt.Errorf("%s has the offsets %d to %d, and not %d", p, first[p], end[p], to[p])
		}
	}
	return nil
}

func (r *reset) transform(ctx context.Context, to source.Offsets) error {
	written, err := r.Ends(ctx)
	if err != nil {
		return err
	}
	if err := r.tellOthers(ctx, r.transformPositions(source.Partition{}, written), stageTransform, to); err != nil {
		return err
	}
	for _, p := range to.Partitions() {
		open := func() (*sink.Kafka, error) {
			id, former := system.TransformID(r.Config.Source, p.ID)
			return r.OpenSink(ctx, id, former)
		}
		before, err := r.move(ctx, r.transformPositions(p, written), p, to[p], open, nil)
		if err != nil {
			return err
		}
		r.tell("transform", "whitened", p, before, to[p])
	}
	return nil
}

// move moves a partition in the place of who writes it, unless it is a dry run, and returns where it stood.
func (r *reset) move(ctx context.Context, at *start.Positions, p source.Partition, to int64, open func() (*sink.Kafka, error), msgs []sink.Message) (before int64, err error) {
	if r.dryRun {
		stood, err := at.Stands(ctx, []source.Partition{p})
		return stood[p].Next, err
	}
	k, err := open()
	if err != nil {
		return 0, err
	}
	stood, err := at.Stands(ctx, []source.Partition{p})
	if err == nil {
		err = at.Reset(ctx, k, source.Offsets{p: to}, msgs)
	}
	return stood[p].Next, errors.Join(err, k.Close())
}

// learn moves the checkpoint; without one it moves the position where the model begins.
func (r *reset) learn(ctx context.Context, to source.Offsets) error {
	var was *checkpoint.Checkpoint
	var err error
	if r.dryRun {
		if was, err = r.Checkpoints().Peek(ctx); err == nil {
			err = r.tellFirst(ctx, was, to)
		}
	} else {
		was, err = r.moveCheckpoint(ctx, to)
	}
	if err != nil {
		return err
	}
	for _, p := range to.Partitions() {
		r.tell("learn", "learnt", p, savedAt(was, p), to[p])
	}
	return nil
}

// moveCheckpoint returns the checkpoint as it was; nil: there was none.
func (r *reset) moveCheckpoint(ctx context.Context, to source.Offsets) (was *checkpoint.Checkpoint, err error) {
	id, former := system.LearnID(r.Config.Source, r.Config.Snapshot.ModelID)
	k, err := r.OpenSink(ctx, id, former)
	if err != nil {
		return nil, err
	}
	defer func() { _ = k.Close() }()
	checkpoints := r.Checkpoints()
	if err := checkpoints.Own(ctx, k); err != nil {
		return nil, err
	}
	if was, err = checkpoints.Load(ctx); err != nil {
		return nil, err
	}
	msgs, err := checkpoints.Move(was, to)
	if err == nil {
		err = r.tellFirst(ctx, was, to)
	}
	if err != nil {
		return nil, err
	}
	return was, r.PositionsFor(system.LearnGroup(r.Config), r.Config.Snapshot.ModelID).Reset(ctx, k, to, msgs)
}

// tellFirst is tellOthers for a learner without a checkpoint.
func (r *reset) tellFirst(ctx context.Context, was *checkpoint.Checkpoint, to source.Offsets) error {
	if was != nil {
		return nil
	}
	return r.tellOthers(ctx, r.PositionsFor(system.LearnGroup(r.Config), r.Config.Snapshot.ModelID), stageLearn, to)
}

// savedAt returns where a checkpoint reads on; -1: nowhere, or there is no checkpoint.
func savedAt(c *checkpoint.Checkpoint, p source.Partition) int64 {
	if c == nil {
		return -1
	}
	if at, ok := c.Offsets[p]; ok {
		return at
	}
	return -1
}

// tellOthers says where the partitions begin that are not named, if the group has not begun: the reset is its first start.
func (r *reset) tellOthers(ctx context.Context, at *start.Positions, stage string, to source.Offsets) error {
	begin, err := at.Beginning(ctx)
	for _, p := range begin.Partitions() {
		if _, named := to[p]; !named {
			r.say("%s: %s has not begun: it begins at %d from now on", p, stage, begin[p])
		}
	}
	return err
}

// transformPositions are those of a transform, which knows what the group has written.
func (r *reset) transformPositions(p source.Partition, written *start.Written) *start.Positions {
	at := r.PositionsIn(p, r.Config.Source.Group, "")
	at.Written = written
	return at
}

func (r *reset) tell(stage, done string, p source.Partition, before, now int64) {
	what := "nothing was committed before"
	switch {
	case before == now:
		what = "as it was"
	case before > now:
		what = fmt.Sprintf("%s will be %s again", plural.Count(before-now, "offset"), done)
	case before >= 0:
		what = fmt.Sprintf("%s will never be %s", plural.Count(now-before, "offset"), done)
	}
	from := "none"
	if before >= 0 {
		from = fmt.Sprint(before)
	}
	r.say("%s: %s from %s to %d: %s", p, stage, from, now, what)
}

// learnKeyed moves the models of each partition with its committed offset, in one transaction, in the place of its learner.
func (r *reset) learnKeyed(ctx context.Context, to source.Offsets) error {
	if err := r.tellOthers(ctx, r.KeyedPositions(0), stageLearn, to); err != nil {
		return err
	}
	for _, p := range to.Partitions() {
		open := func() (*sink.Kafka, error) { return r.OpenKeyedSink(ctx, p.ID) }
		before, err := r.move(ctx, r.KeyedPositions(p.ID), p, to[p], open, []sink.Message{r.KeyedStates(p.ID, source.Latest).Move(to[p])})
		if err != nil {
			return err
		}
		r.tell("learn", "learnt", p, before, to[p])
	}
	return nil
}

// stopped refuses while a process works, as far as the brokers know.
func (r *reset) stopped(ctx context.Context, stage string, to source.Offsets) error {
	c := r.Config
	var ids, groups []string
	if stage != stageLearn {
		if err := r.members(ctx, c.Source.Group); err != nil {
			return err
		}
		groups = append(groups, c.Source.Group)
		for p := range to {
			id, former := system.TransformID(c.Source, p.ID)
			ids = append(ids, id, former)
		}
	}
	if stage != stageTransform {
		groups = append(groups, system.LearnGroup(c))
		if r.Keyed() {
			if err := r.members(ctx, system.LearnGroup(c)); err != nil {
				return err
			}
			for p := range to {
				ids = append(ids, system.KeyedLearnID(c.Source, c.Snapshot.ModelID, p.ID))
			}
		} else {
			id, former := system.LearnID(c.Source, c.Snapshot.ModelID)
			ids = append(ids, id, former)
		}
	}
	before, err := r.traces(ctx, ids, groups, to)
	if err != nil || r.watch <= 0 || len(before.written) == 0 && !before.committed() {
		return err // no process has ever worked here
	}
	timer := time.NewTimer(r.watch)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	after, err := r.traces(ctx, ids, groups, to)
	if err != nil {
		return err
	}
	return before.differ(after)
}

// members refuses a group that has any.
func (r *reset) members(ctx context.Context, group string) error {
	members, err := source.Members(ctx, r.Cluster, group)
	if err != nil {
		return err
	}
	if n := len(members); n > 0 {
		return fmt.Errorf("group %q has %s, such as %s: stop them first (one that was killed is a member until its session ends)", group, plural.Count(n, "member"), members[0])
	}
	return nil
}

// traces are what work leaves behind: a process without a group is known by nothing else.
type traces struct {
	written map[string]written // by transactional id
	offsets map[string]source.Offsets
}

// written is what a coordinator knows of a transactional id. Each transaction changes it: when it was begun, and
// the epoch (transaction.version 2).
type written struct {
	producer, began int64
	epoch           int16
	state           string
}

func (w written) open() bool {
	return w.state == "Ongoing" || w.state == "PrepareCommit" || w.state == "PrepareAbort"
}

// traces looks once, and refuses an open transaction.
func (r *reset) traces(ctx context.Context, ids, groups []string, to source.Offsets) (traces, error) {
	t := traces{written: make(map[string]written), offsets: make(map[string]source.Offsets)}
	for _, id := range ids {
		w, known, err := r.written(ctx, id)
		if err != nil {
			return t, err
		}
		if w.open() {
			return t, fmt.Errorf("a transaction of %q is open: stop who writes it; that of one that was killed ends within 45 s", id)
		}
		if known {
			t.written[id] = w
		}
	}
	for _, group := range groups {
		found, err := source.Committed(ctx, r.Cluster, group, to.Partitions())
		if err != nil {
			return t, err
		}
		t.offsets[group] = make(source.Offsets)
		for p, at := range found {
			t.offsets[group][p] = at.Next
		}
	}
	return t, nil
}

func (t traces) committed() bool {
	for _, offsets := range t.offsets {
		for _, next := range offsets {
			if next >= 0 {
				return true
			}
		}
	}
	return false
}

// differ names who has worked between two looks.
func (t traces) differ(now traces) error {
	const remedy = "stop it first; if it has just been stopped, its last transaction may still be ending: then try again"
	for id, w := range now.written {
		if was, ok := t.written[id]; !ok || was != w {
			return fmt.Errorf("%q is at work, it has written a transaction meanwhile: %s", id, remedy)
		}
	}
	for group, offsets := range now.offsets {
		if !maps.Equal(offsets, t.offsets[group]) {
			return fmt.Errorf("group %q is at work, it has committed offsets meanwhile: %s", group, remedy)
		}
	}
	return nil
}

// written asks the coordinator. Brokers before Kafka 3.0, and those that do not know the id, cannot say.
func (r *reset) written(ctx context.Context, id string) (w written, known bool, err error) {
	at, err := r.Cluster.Client().FindCoordinator(ctx, &kafka.FindCoordinatorRequest{Key: id, KeyType: kafka.CoordinatorKeyTypeTransaction})
	if err != nil {
		return w, false, err
	}
	if at.Error != nil {
		return w, false, at.Error
	}
	request := kmsg.NewPtrDescribeTransactionsRequest()
	request.TransactionalIDs = []string{id}
	m, err := r.Cluster.Ask(ctx, kafkaconn.Question{Request: request, Broker: func(c wire.Cluster) (wire.Broker, error) {
		return c.Brokers[int32(at.Coordinator.NodeID)], nil
	}})
	if errors.Is(err, kafka.UnsupportedVersion) {
		return w, false, nil
	}
	if err != nil {
		return w, false, err
	}
	for _, t := range m.(*kmsg.DescribeTransactionsResponse).TransactionStates {
		if t.ErrorCode == 0 {
			return written{t.ProducerID, t.StartTimestamp, t.ProducerEpoch, t.State}, true, nil
		}
	}
	return w, false, nil
}
