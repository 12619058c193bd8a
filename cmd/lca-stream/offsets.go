package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go"
	wire "github.com/segmentio/kafka-go/protocol"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/internal/cluster"
	"github.com/lca-stream/lca-stream/source"
)

func (p *program) offsetsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "offsets",
		Short: "Show or reset where transform and learner read on",
		Long: `Where the transform reads on is the committed offset of source.group, where the learner does is in its
checkpoint. show puts both side by side, with what else is known; reset moves them while nobody runs.`,
	}
	c.AddCommand(p.offsetsShowCommand(), p.offsetsResetCommand())
	return c
}

// stages are the two readers of the source topic.
const (
	stageAll       = "all"
	stageLearn     = "learn"
	stageTransform = "transform"
)

func (p *program) offsetsResetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "reset",
		Short: "Move where transform and learner read on",
		Long: `Commits other offsets, and moves the learner's checkpoint; the model stays. Says what will be read again or
left out. Stop the program first: reset refuses while the group has members or a transaction is open, and
a process with a static assignment that it cannot see is fenced, and ends with exit code 3.
--to is earliest, latest, an RFC 3339 time, or PARTITION=OFFSET[,...], which leaves other partitions as they are.`,
		Example: "  lca-stream offsets reset -c stream.yaml --to 0=1042,1=990\n  lca-stream offsets reset -c stream.yaml --to earliest --stage learn",
	}
	o := configFlags(c)
	needConfig(c)
	to := c.Flags().String("to", "", "where to read on: earliest, latest, a time, or `PARTITION=OFFSET,...`")
	stage := c.Flags().String("stage", stageAll, "whose position is moved: learn, transform or all")
	return command(c, func(ctx context.Context, _ []string) error {
		if *to == "" {
			return usage{errors.New("--to is missing: earliest, latest, a time such as 2026-01-31T12:00:00Z, or PARTITION=OFFSET[,...]")}
		}
		if !slices.Contains([]string{stageAll, stageLearn, stageTransform}, *stage) {
			return usage{fmt.Errorf("--stage %s: want learn, transform or all", *stage)}
		}
		s, err := p.connect(o)
		if err != nil {
			return err
		}
		defer s.cluster.Close()
		r := &reset{system: s, say: func(format string, args ...any) { fmt.Fprintf(p.stdout, format+"\n", args...) }}
		return s.cluster.Explain(r.run(ctx, *to, *stage))
	})
}

// reset moves positions.
type reset struct {
	*system
	say func(format string, args ...any)
}

func (r *reset) run(ctx context.Context, place, stage string) error {
	c := r.config
	all, err := r.partitions(ctx, c.Source.Topic)
	if err != nil {
		return err
	}
	to, err := r.place(ctx, all, place)
	if err != nil {
		return fmt.Errorf("--to %s: %w", place, err)
	}
	if err := r.within(ctx, to); err != nil {
		return fmt.Errorf("--to %s: %w", place, err)
	}
	if err := r.stopped(ctx, stage, to); err != nil {
		return err
	}
	if stage != stageLearn {
		if err := r.transform(ctx, to); err != nil {
			return err
		}
	}
	if stage != stageTransform {
		return r.learn(ctx, to)
	}
	return nil
}

// within refuses offsets that there are no records at.
func (r *reset) within(ctx context.Context, to source.Offsets) error {
	parts := offsetsOrder(to)
	first, err := source.ListOffsets(ctx, r.cluster, parts, source.Earliest)
	if err != nil {
		return err
	}
	end, err := source.ListOffsets(ctx, r.cluster, parts, source.Latest)
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

// stopped refuses while somebody works, as far as the brokers know.
func (r *reset) stopped(ctx context.Context, stage string, to source.Offsets) error {
	c := r.config
	ids := []string{}
	if stage != stageLearn {
		answer, err := r.cluster.Client().DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{c.Source.Group}})
		if err != nil {
			return err
		}
		for _, g := range answer.Groups {
			if n := len(g.Members); n > 0 {
				return fmt.Errorf("group %q has %d members, such as %s: stop them first (one that was killed is a member until its session ends)", c.Source.Group, n, g.Members[0].ClientHost)
			}
		}
		for p := range to {
			id, former := transformID(c.Source, p.ID)
			ids = append(ids, id, former)
		}
	}
	if stage != stageTransform {
		id, former := learnID(c.Source, c.Snapshot.ModelID)
		ids = append(ids, id, former)
	}
	for _, id := range ids {
		open, err := r.open(ctx, id)
		if err != nil {
			return err
		}
		if open {
			return fmt.Errorf("a transaction of %q is open: stop who writes it; that of one that was killed ends within kafka.transaction_timeout", id)
		}
	}
	return nil
}

// open reports whether a transaction is under way. Brokers before Kafka 3.0, and those that do not know
// the id, cannot say.
func (r *reset) open(ctx context.Context, id string) (bool, error) {
	at, err := r.cluster.Client().FindCoordinator(ctx, &kafka.FindCoordinatorRequest{Key: id, KeyType: kafka.CoordinatorKeyTypeTransaction})
	if err != nil {
		return false, err
	}
	if at.Error != nil {
		return false, at.Error
	}
	request := kmsg.NewPtrDescribeTransactionsRequest()
	request.TransactionalIDs = []string{id}
	m, err := r.cluster.Ask(ctx, cluster.Question{Request: request, Broker: func(c wire.Cluster) (wire.Broker, error) {
		return c.Brokers[int32(at.Coordinator.NodeID)], nil
	}})
	if errors.Is(err, kafka.UnsupportedVersion) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, t := range m.(*kmsg.DescribeTransactionsResponse).TransactionStates {
		if t.ErrorCode == 0 && (t.State == "Ongoing" || t.State == "PrepareCommit" || t.State == "PrepareAbort") {
			return true, nil
		}
	}
	return false, nil
}

func (r *reset) transform(ctx context.Context, to source.Offsets) error {
	positions := r.positions(r.config.Source.Group, "")
	before, err := source.Committed(ctx, r.cluster, positions.Group, offsetsOrder(to))
	if err != nil {
		return err
	}
	for _, p := range offsetsOrder(to) {
		id, former := transformID(r.config.Source, p.ID)
		k, err := r.openSink(ctx, id, former)
		if err != nil {
			return err
		}
		err = errors.Join(positions.Reset(ctx, k, source.Offsets{p: to[p]}, nil), k.Close())
		if err != nil {
			return err
		}
		r.tell("transform", "whitened", p, before[p].Next, to[p])
	}
	return nil
}

// learn moves the checkpoint; without one it moves where the model begins.
func (r *reset) learn(ctx context.Context, to source.Offsets) error {
	id, former := learnID(r.config.Source, r.config.Snapshot.ModelID)
	k, err := r.openSink(ctx, id, former)
	if err != nil {
		return err
	}
	defer func() { _ = k.Close() }()
	checkpoints := r.checkpoints()
	if err := checkpoints.Own(ctx, k); err != nil {
		return err
	}
	was, err := checkpoints.Load(ctx)
	if err != nil {
		return err
	}
	msgs, err := checkpoints.Move(ctx, to)
	if err != nil {
		return err
	}
	if err := r.positions(learnGroup(r.config), r.config.Snapshot.ModelID).Reset(ctx, k, to, msgs); err != nil {
		return err
	}
	for _, p := range offsetsOrder(to) {
		before := int64(-1)
		if was != nil {
			if at, ok := was.Offsets[p]; ok {
				before = at
			}
		}
		r.tell("learn", "learnt", p, before, to[p])
	}
	return nil
}

func (r *reset) tell(stage, done string, p source.Partition, before, now int64) {
	what := "nothing was committed before"
	switch {
	case before == now:
		what = "as it was"
	case before > now:
		what = fmt.Sprintf("%d offsets will be %s again", before-now, done)
	case before >= 0:
		what = fmt.Sprintf("%d offsets will never be %s", now-before, done)
	}
	from := "none"
	if before >= 0 {
		from = fmt.Sprint(before)
	}
	r.say("%s: %s from %s to %d: %s", p, stage, from, now, what)
}

func offsetsOrder(o source.Offsets) []source.Partition {
	parts := make([]source.Partition, 0, len(o))
	for p := range o {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b source.Partition) int { return int(a.ID - b.ID) })
	return parts
}
