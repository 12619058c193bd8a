package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// offsetsCommand is `lca-stream offsets`.
func offsetsCommand(p *program) *cobra.Command {
	return group(&cobra.Command{
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

func offsetsResetCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "reset",
		Short: "Move where transform and learner read on",
		Long: `Commits other offsets, and moves the learner's checkpoint; the model stays. Says what will be read again or
left out. Stop the program first: reset refuses while the group has members or a transaction is open. A learner
without model.by, and what has a static assignment, are members of nothing: reset looks for --watch whether they
commit, and refuses if they do. One that has nothing to do for so long cannot be seen: it is fenced, ends with exit
code 3, and goes on at the new place when it is started again.
With model.by all models of a partition are moved: rows from the new place on are learnt again, as far as they were.
--to is earliest, latest, a time such as 2026-01-31, 2026-01-31T12:00:00Z or 2h (ago), or PARTITION=OFFSET[,...],
which leaves other partitions as they are: where the group has not begun, they begin at source.start_offset now. --dry-run says what would be done, and does not look for processes.`,
		Example: "  lca-stream offsets reset -c stream.yaml --to 0=1042,1=990\n  lca-stream offsets reset -c stream.yaml --to earliest --stage learn",
	}
	o := p.configFlags(c)
	o.needed = true
	to := c.Flags().String("to", "", "where to read on: earliest, latest, a time, or `PARTITION=OFFSET,...`")
	dryRun := c.Flags().Bool("dry-run", false, "say what would be read again or left out, and change nothing")
	stage := c.Flags().String("stage", stageAll, "whose position is moved: learn, transform or all")
	choices(c, "stage", stageLearn, stageTransform, stageAll)
	watch := c.Flags().Duration("watch", 3*time.Second, "how long to look whether a process is at work; longer than snapshot.every to be sure of a learner that reads; 0 = not at all")
	return command(c, func(ctx context.Context, _ []string) error {
		if *to == "" {
			return usageError("--to is missing: %s", wantPlace)
		}
		if !slices.Contains([]string{stageAll, stageLearn, stageTransform}, *stage) {
			return usageError("--stage %s: want learn, transform or all", *stage)
		}
		place, err := parsePlace("--to", *to, time.Now())
		if err != nil {
			return err
		}
		s, err := connect(ctx, p, o)
		if err != nil {
			return err
		}
		defer s.cluster.Close()
		r := &reset{system: s, watch: *watch, dryRun: *dryRun, say: func(format string, args ...any) { fmt.Fprintf(p.stdout, format+"\n", args...) }}
		return s.cluster.Explain(r.run(ctx, place, *stage))
	})
}

// reset moves positions.
type reset struct {
	*system
	watch  time.Duration
	dryRun bool
	say    func(format string, args ...any)
}

func (r *reset) run(ctx context.Context, where place, stage string) error {
	c := r.config
	all, err := r.partitions(ctx, c.Source.Topic)
	if err != nil {
		return err
	}
	to, err := r.at(ctx, all, where)
	if err == nil {
		err = r.within(ctx, to)
	}
	if err != nil {
		return fmt.Errorf("--to %s: %w", where.text, err)
	}
	if r.keyed() {
		if err := r.keyedTopics(ctx); err != nil {
			return err
		}
	}
	if r.dryRun {
		return r.foretell(ctx, stage, to)
	}
	if err := r.stopped(ctx, stage, to); err != nil {
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
	case r.keyed():
		return r.learnKeyed(ctx, to)
	}
	return r.learn(ctx, to)
}

// within refuses offsets without records.
func (r *reset) within(ctx context.Context, to source.Offsets) error {
	parts := to.Partitions()
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

// foretell says what a reset would do.
func (r *reset) foretell(ctx context.Context, stage string, to source.Offsets) error {
	r.say("a dry run: nothing is changed")
	if stage != stageLearn {
		before, err := source.Committed(ctx, r.cluster, r.config.Source.Group, to.Partitions())
		if err != nil {
			return err
		}
		written, err := r.ends(ctx)
		if err == nil {
			err = r.tellOthers(ctx, r.transformPositions(source.Partition{}, written), stageTransform, to)
		}
		if err != nil {
			return err
		}
		for _, p := range to.Partitions() {
			r.tell("transform", "whitened", p, before[p].Next, to[p])
		}
	}
	if stage != stageTransform && r.keyed() {
		return r.foretellKeyed(ctx, to)
	}
	if stage != stageTransform {
		saved, err := r.checkpoints().Peek(ctx)
		if err == nil && saved == nil {
			err = r.tellOthers(ctx, r.positions(learnGroup(r.config), r.config.Snapshot.ModelID), stageLearn, to)
		}
		if err != nil {
			return err
		}
		for _, p := range to.Partitions() {
			r.tell("learn", "learnt", p, savedAt(saved, p), to[p])
		}
	}
	return nil
}

func (r *reset) transform(ctx context.Context, to source.Offsets) error {
	group := r.config.Source.Group
	before, err := source.Committed(ctx, r.cluster, group, to.Partitions())
	if err != nil {
		return err
	}
	written, err := r.ends(ctx)
	if err != nil {
		return err
	}
	if err := r.tellOthers(ctx, r.transformPositions(source.Partition{}, written), stageTransform, to); err != nil {
		return err
	}
	for _, p := range to.Partitions() {
		id, former := transformID(r.config.Source, p.ID)
		k, err := r.openSink(ctx, id, former)
		if err != nil {
			return err
		}
		if err := errors.Join(r.transformPositions(p, written).Reset(ctx, k, source.Offsets{p: to[p]}, nil), k.Close()); err != nil {
			return err
		}
		r.tell("transform", "whitened", p, before[p].Next, to[p])
	}
	return nil
}

// learn moves the checkpoint; without one it moves the position where the model begins.
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
	msgs, err := checkpoints.Move(was, to)
	if err == nil && was == nil {
		err = r.tellOthers(ctx, r.positions(learnGroup(r.config), r.config.Snapshot.ModelID), stageLearn, to)
	}
	if err != nil {
		return err
	}
	if err := r.positions(learnGroup(r.config), r.config.Snapshot.ModelID).Reset(ctx, k, to, msgs); err != nil {
		return err
	}
	for _, p := range to.Partitions() {
		r.tell("learn", "learnt", p, savedAt(was, p), to[p])
	}
	return nil
}

// savedAt returns where a checkpoint reads on; -1: nowhere, or there is no checkpoint.
func savedAt(c *pipeline.Checkpoint, p source.Partition) int64 {
	if c == nil {
		return -1
	}
	if at, ok := c.Offsets[p]; ok {
		return at
	}
	return -1
}

// tellOthers says where the partitions begin that are not named, if the group has not begun: the reset is its first start.
func (r *reset) tellOthers(ctx context.Context, at *pipeline.Positions, stage string, to source.Offsets) error {
	begin, err := at.Beginning(ctx)
	for _, p := range begin.Partitions() {
		if _, named := to[p]; !named {
			r.say("%s: %s has not begun: it begins at %d from now on", p, stage, begin[p])
		}
	}
	return err
}

// transformPositions are those of a transform, which knows what the group has written.
func (r *reset) transformPositions(p source.Partition, written *pipeline.Written) *pipeline.Positions {
	at := r.positionsOf(p, r.config.Source.Group, "")
	at.Written = written
	return at
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
