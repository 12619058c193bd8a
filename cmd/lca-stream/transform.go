package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// transformCommand is `lca-stream transform`.
func transformCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "transform",
		Short: "Whiten live records with the newest snapshot, or files with any",
		Long: `Whitens every record of the source topic with the newest snapshot and writes it to the output topic,
exactly once. Run up to as many as there are partitions: they share the consumer group source.group.
Where a partition is read from is committed before it is read; "lca-stream offsets" shows and moves it.
Stops in order on SIGTERM, within shutdown_timeout.

With --input it whitens files and pipes instead, in order, with one model: that of --model, or of the snapshot
topic of -c. The output has the columns of the input and those that the output topic would have, with the same
values. Nothing is committed, and no broker is needed with --model. -c and --set say which columns: transform.score,
transform.why, transform.layout, source.on_invalid, …`,
		Example: `  lca-stream transform -c stream.yaml
  lca-stream transform --model model.arrows --input 2026-01.arrow --input 2026-02.arrow -o whitened.arrow
  python3 rows.py | lca-stream transform --model model.arrows --input - --output - | python3 use.py`,
	}
	topics := func(c *config.Config) ([]string, error) {
		return withOptional(c, c.Source.Topic, c.Transform.Topic, c.Snapshot.Topic, c.Checkpoint.Topic), nil
	}
	o := p.configFlags(c)
	f := offlineFlagsOf(c)
	return command(c, func(ctx context.Context, _ []string) error {
		if f.given() {
			return transformFiles(ctx, p, o, f)
		}
		return onTopics(ctx, p, c, o, topics, func(ctx context.Context, s *Process) error { return (&whitening{Process: s}).transform(ctx) })
	})
}

// withOptional adds the topics that a configuration may leave out.
func withOptional(c *config.Config, names ...string) []string {
	for _, topic := range []string{c.DeadLetter.Topic, c.Alarms.Topic} {
		if topic != "" {
			names = append(names, topic)
		}
	}
	return names
}

// stopped returns nil if the process was asked to stop before it began.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// whitening is the transform of a process.
type whitening struct {
	*Process

	learns      bool // the process has a learner, too
	fromHistory bool // … that learns all records that are there first
}

// transform follows the snapshot topic and whitens until ctx ends.
func (s *whitening) transform(ctx context.Context) error {
	if s.config.Model.By.Keyed() {
		return s.transformKeyed(ctx)
	}
	shared, err := s.transformConfig(ctx)
	if err != nil {
		return err
	}
	// The follower must outlive the loops, because a loop that ends may still be whitening.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	g, gctx := errgroup.WithContext(ctx)
	follower := make(chan struct{})
	go func() {
		defer close(follower)
		if err := shared.Follow.Run(following); err != nil {
			fail(err)
		}
	}()
	defer func() { stopFollowing(); <-follower }()
	g.Go(func() error {
		s.stats.SetReady(pipeline.Readiness{Reason: "reading the newest model on topic " + s.config.Snapshot.Topic})
		if err := shared.Follow.AwaitStart(gctx); err != nil { // a model that does not fit ends this process before it takes a partition from another one
			return stopped(gctx, err)
		}
		return s.whiten(gctx, shared, nil)
	})
	err = g.Wait()
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause // nil, or why the snapshot topic cannot be followed
	}
	return err
}

// whiten whitens with the model that is followed, or with keyed models unless they are nil.
func (s *whitening) whiten(ctx context.Context, shared pipeline.TransformConfig, models *pipeline.KeyedModels) error {
	if shared.UntilModel == pipeline.Hold {
		s.stats.SetHold(s.config.Snapshot.Topic)
	}
	s.stats.SetReady(pipeline.Readiness{Reason: "waiting for partitions"})
	members, leave, err := s.members(ctx)
	if err != nil {
		return stopped(ctx, err)
	}
	defer leave()
	lags := newLags()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go s.watch(watching, "transform", true, lags.read)
	go lags.measure(watching, func(ctx context.Context, parts []source.Partition) source.Offsets {
		return source.Ends(ctx, s.cluster, parts)
	})
	if models != nil {
		members = &keptModels{members, models}
	}
	o := &transforms{whitening: s, shared: shared, models: models, positions: s.positions(s.config.Source.Group, ""), lags: lags}
	o.positions.Written = s.written(shared.DeadLetter)
	o.renew, o.gaps = s.renewal(ctx, o.positions), s.gaps(o.positions)
	t := &pipeline.Transforms{Members: members, Log: s.log.With("stage", "transform"), Stats: s.stats, Open: o.open}
	return watched(ctx, o.positions, t.Run)
}

// transforms opens the loops of partitions, and holds what they share.
type transforms struct {
	*whitening
	shared    pipeline.TransformConfig
	models    *pipeline.KeyedModels // nil: there is one model for all rows
	positions *pipeline.Positions
	renew     *pipeline.Renewal
	gaps      *pipeline.Gaps
	lags      *lags
}

// open opens one partition's loop, in the order of a takeover.
func (o *transforms) open(ctx context.Context, p source.Partition, claim source.Claim) (*pipeline.Loop, error) {
	parts, positions := []source.Partition{p}, o.positionsOf(p)
	var out *sink.Kafka
	takeover := &pipeline.Takeover{
		Fence: func(ctx context.Context) (pipeline.Sink, error) {
			id, former := transformID(o.config.Source, p.ID)
			k, err := o.openSink(ctx, id, former)
			if err != nil {
				return nil, err
			}
			failpoint.Here("takeover")
			out = k
			return k, nil
		},
		Stage: func(k pipeline.Sink) (pipeline.Stage, error) {
			takes := func(ctx context.Context, again bool) int { return out.MostText(ctx, o.shared.Topic, again) }
			committed := func(ctx context.Context) (source.Offsets, error) { return positions.Open(ctx, k, claim, parts) }
			return o.stage(pipeline.Transform{TransformConfig: o.shared, Committed: committed, Takes: takes}), nil
		},
		CatchUp: func(ctx context.Context) error { return o.catchUp(ctx, p) },
		Read: func(ctx context.Context, start source.Offsets) (pipeline.Source, error) {
			claim := claim
			claim.Metadata = positions.Metadata(parts)
			if o.shared.UntilModel != pipeline.Hold {
				return o.read(ctx, p, positions, claim, start)
			}
			claim.Next, claim.Epochs = start, positions.Epochs(start)
			o.lags.hold(ctx, p, start[p])
			read := func(ctx context.Context, start source.Offsets) (pipeline.Source, error) {
				return o.read(ctx, p, positions, claim, start)
			}
			return o.shared.Follow.Hold(read, claim, o.idle()), nil
		},
	}
	loop, err := takeover.Open(ctx)
	if err != nil {
		return nil, o.cluster.Explain(err)
	}
	loop.Name, loop.Stats, loop.Log, loop.Grace = "transform", o.stats, o.log.With("stage", "transform", "partition", p.String()), min(o.grace(), rebalanceTimeout*8/10)
	loop.Spread, loop.Renew, loop.Epochs = spread, &pipeline.Renewal{Every: o.renew.Every, Markers: positions.Markers}, positions.Epochs(loop.Start)
	loop.Outputs = &pipeline.Outputs{Positions: positions, Partition: p}
	if o.config.Source.Assignment == config.AssignStatic { // otherwise the group says who owns the partition
		loop.Check = ownerCheck
	}
	loop.Trace = o.traces.Loop("transform", p.Topic, o.config.Source.Group)
	return loop, nil
}

// becomes says how much text is made of a message; nil: none.
func (o *transforms) becomes() func(*source.Message) int64 {
	if o.shared.Output.Format == pipeline.FormatArrow {
		return nil
	}
	return o.shared.Becomes
}

// idle returns the interval of the empty batches of a quiet partition.
func (o *transforms) idle() time.Duration { return min(o.renew.Every/2, transformIdle) }

// gathering is how long a transaction waits to be filled, or what bounds those that do not wait.
func (s *whitening) gathering() (wait time.Duration, rate *source.Rate) {
	if wait = s.config.Transform.MaxDelay; wait > 0 {
		return wait, nil
	}
	return 0, s.rate
}

// read opens a partition's reader.
func (o *transforms) read(ctx context.Context, p source.Partition, positions *pipeline.Positions, claim source.Claim, start source.Offsets) (pipeline.Source, error) {
	claim.Next, claim.Epochs = nil, nil
	wait, rate := o.gathering()
	bytes, parts := o.batches()
	src, err := o.reader(ctx, source.KafkaConfig{
		Start: start, Epochs: positions.Epochs(start), TopicIDs: positions.TopicIDs(), Claim: claim, GatherBytes: bytes,
		GatherParts: parts, GatherWait: wait, Rate: rate, IdleWait: o.idle(), OnGap: o.gaps.Pass, Becomes: o.becomes(),
	}, o.whitened())
	if err != nil {
		return nil, err
	}
	o.lags.add(ctx, p, src)
	return src, nil
}

// batches returns what a batch may take: bytes of messages, see transformGather, and parts of the memory for batches.
func (o *transforms) batches() (bytes, parts int) {
	if o.models == nil {
		return transformGather, 1
	}
	return keyedTransformGather, keyedTransformParts
}

// whitened asks for the features, and for the rest where the output is made of columns rather than of the input's bytes.
// A column with a name of ours is asked for in any case, because such an input is set aside; so all are, where these names are not known
// because the only feature may be a list of any length.
func (s *whitening) whitened() format.Config {
	needed, output := s.featuresOnly(), outputOf(s.config)
	if needed.Only && output.Passthrough {
		needed.OnlyOf = output.Format.Copied()
		if needed.Only = len(needed.OnlyOf) > 0 && (len(needed.Columns) > 1 || output.Layout != pipeline.LayoutColumns); needed.Only {
			needed.Also = output.Names(len(needed.Columns))
		}
	}
	return withValues(needed, s.config.Model.By)
}

// withValues asks for the column that says which model a row belongs to, too.
func withValues(needed format.Config, by modelkey.By) format.Config {
	if by.Place == modelkey.Column {
		needed.Columns = append(slices.Clone(needed.Columns), by.Name)
	}
	return needed
}

// grace returns the shutdown timeout less some time for leaving the group and closing connections.
func (s *Process) grace() time.Duration { return s.config.ShutdownTimeout * 8 / 10 }

func (s *whitening) transformConfig(ctx context.Context) (pipeline.TransformConfig, error) {
	c := s.config
	dead, err := s.deadLetter(ctx)
	if err != nil {
		return pipeline.TransformConfig{}, err
	}
	alarms, err := s.alarms(ctx)
	if err != nil {
		return pipeline.TransformConfig{}, err
	}
	until := c.UntilModel()
	if s.fromHistory {
		until = pipeline.Hold
	}
	var registry pipeline.Registry
	if s.registry != nil {
		registry = s.registry
	}
	return pipeline.TransformConfig{
		Registry: registry,
		Group:    c.Source.Group, Topic: c.Transform.Topic, Columns: c.Source.Features,
		Output:      outputOf(c),
		Coordinates: c.Transform.Coordinates, Components: c.Transform.Components,
		UntilModel: until, OnInvalid: c.Source.OnInvalid,
		MaxModelAge: c.Transform.MaxModelAge, StopOnStale: c.Transform.OnStale == config.Stop,
		Alarms: alarms, DeadLetter: dead, DeadLog: &pipeline.DeadLog{Log: s.log, Now: time.Now}, Stats: s.stats, Log: s.log, Now: time.Now,
		Follow: s.follow(), Engines: s.engines,
	}, nil
}

func (s *whitening) follow() *pipeline.Follow {
	c := s.config
	return &pipeline.Follow{
		Open: s.openLog(c.Snapshot.Topic), OpenAt: s.openLogAt(c.Snapshot.Topic), End: s.end(c.Snapshot.Topic, source.LatestStable),
		Topic: c.Snapshot.Topic, ModelID: c.Snapshot.ModelID, Source: c.Source.Topic, Group: c.Source.Group, Learns: s.learns,
		Features: c.Source.Features, Pin: c.Transform.PinVersion, Most: s.versionBytes(), Stats: s.stats, Log: s.log,
	}
}

// thresholds returns when to stop because of records that cannot be used.
func (s *Topics) thresholds() pipeline.DeadLetter {
	c := s.config.DeadLetter
	return pipeline.DeadLetter{Topic: c.Topic, Group: s.config.Source.Group, Window: c.Window, MaxRejects: c.MaxRejects, WarnOnly: c.OnThreshold == config.Warn, StopAtTooLarge: c.OnTooLarge == config.Stop}
}

// alarms returns where events go: to the partition that Kafka's own clients choose for their key.
func (s *Topics) alarms(ctx context.Context) (pipeline.Alarms, error) {
	a := pipeline.Alarms{Topic: s.config.Alarms.Topic, ModelID: s.config.Snapshot.ModelID, PBelow: s.config.Alarms.PBelow}
	if a.Topic == "" {
		return a, nil
	}
	parts, err := s.partitions(ctx, a.Topic)
	if err != nil {
		return a, err
	}
	ids := make([]int, len(parts))
	for i := range ids {
		ids[i] = i
	}
	a.To = func(id string) int32 {
		return int32(kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: []byte(id)}, ids...))
	}
	a.Partition = a.To(a.ModelID)
	return a, nil
}

// deadLetter returns where records go that cannot be used.
func (s *Topics) deadLetter(ctx context.Context) (pipeline.DeadLetter, error) {
	d := s.thresholds()
	if d.Topic == "" {
		return d, nil
	}
	parts, err := s.partitions(ctx, d.Topic)
	d.Partitions = int32(len(parts))
	return d, err
}

// outputOf is what an output message holds.
func outputOf(c *config.Config) pipeline.OutputConfig {
	t := c.Transform
	return pipeline.OutputConfig{Format: t.Format, Column: t.Column, Layout: t.Layout, Score: t.Score, P: t.PValue, Why: t.Why, Imputed: c.Source.OnInvalid == pipeline.ImputeRow, Models: c.Model.By.Place == modelkey.Column, Passthrough: t.Passthrough}
}
