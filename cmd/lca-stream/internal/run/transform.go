package run

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// TransformCommand is `lca-stream transform`.
func TransformCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "transform",
		Short: "Whiten live records with the newest snapshot, or files with any",
		Long: `Whitens every record of the source topic with the newest snapshot and writes it to the output topic,
exactly once. Run up to as many as there are partitions: they share the consumer group source.group.
Where a partition is read from is committed before it is read; "lca-stream offsets" shows and moves it.
Stops in order on SIGTERM, within 30 s.

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
	o := p.ConfigFlags(c)
	f := offlineFlagsOf(c)
	return app.Command(c, func(ctx context.Context, _ []string) error {
		if f.given() {
			return transformFiles(ctx, p, o, f)
		}
		return system.OnTopics(ctx, p, c, o, topics, func(ctx context.Context, s *system.Process) error { return (&whitening{Process: s}).transform(ctx) })
	})
}

// whitening is the transform of a process.
type whitening struct {
	*system.Process

	progress    *progress // of the learner of this process; nil: it has none
	fromHistory bool      // the learner learns all records that are there first
}

// transform follows the snapshot topic and whitens until ctx ends.
func (s *whitening) transform(ctx context.Context) error {
	if s.Config.Model.By.Keyed() {
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
		s.Stats.SetReady(stats.Readiness{Reason: "reading the newest model on topic " + s.Config.Snapshot.Topic})
		if err := shared.Follow.AwaitStart(gctx); err != nil { // a model that does not fit ends this process before it takes a partition from another one
			return system.Stopped(gctx, err)
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
func (s *whitening) whiten(ctx context.Context, shared transform.TransformConfig, byKey *models.KeyedModels) error {
	if shared.UntilModel == transform.Hold {
		s.Stats.SetHold(s.Config.Snapshot.Topic)
	}
	s.Stats.SetReady(stats.Readiness{Reason: "waiting for partitions"})
	members, leave, err := s.Members(ctx)
	if err != nil {
		return system.Stopped(ctx, err)
	}
	defer leave()
	lags := newLags()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go s.Watch(watching, "transform", true, lags.read)
	go lags.measure(watching, func(ctx context.Context, parts []source.Partition) source.Offsets {
		return source.Ends(ctx, s.Cluster, parts)
	})
	if byKey != nil {
		members = &keptModels{members, byKey}
	}
	o := &transforms{whitening: s, shared: shared, models: byKey, positions: s.PositionsFor(s.Config.Source.Group, ""), lags: lags}
	o.positions.Written, o.positions.States = s.Written(shared.DeadLetter), s.statesOf()
	o.renew, o.gaps = s.Renewal(ctx, o.positions), s.Gaps(o.positions)
	t := &pipeline.Transforms{Members: members, Log: s.Log.With("stage", "transform"), Stats: s.Stats, Open: o.open}
	return watched(ctx, o.positions, t.Run)
}

// transforms opens the loops of partitions, and holds what they share.
type transforms struct {
	*whitening
	shared    transform.TransformConfig
	models    *models.KeyedModels // nil: there is one model for all rows
	positions *start.Positions
	renew     *pipeline.Renewal
	gaps      *start.Gaps
	lags      *lags
}

// open opens one partition's loop, in the order of a takeover.
func (o *transforms) open(ctx context.Context, p source.Partition, claim source.Claim) (*pipeline.Loop, error) {
	parts, positions := []source.Partition{p}, o.positionsOf(p)
	var out *sink.Kafka
	takeover := &pipeline.Takeover{
		Fence: func(ctx context.Context) (pipeline.Sink, error) {
			id, former := system.TransformID(o.Config.Source, p.ID)
			k, err := o.OpenSink(ctx, id, former)
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
			shared, err := o.shared, error(nil)
			shared.Shares, err = o.shares(ctx)
			return o.stage(transform.Transform{TransformConfig: shared, Committed: committed, Takes: takes, Pace: out.Most}), err
		},
		CatchUp: func(ctx context.Context) error { return o.catchUp(ctx, p) },
		Read: func(ctx context.Context, start source.Offsets) (pipeline.Source, error) {
			claim := claim
			claim.Metadata = positions.Metadata(parts)
			if o.shared.UntilModel != transform.Hold {
				return o.read(ctx, p, positions, claim, start)
			}
			claim.Next, claim.Epochs = start, positions.Epochs(start)
			o.lags.hold(ctx, p, start[p])
			read := func(ctx context.Context, start source.Offsets) (pipeline.Source, error) {
				return o.read(ctx, p, positions, claim, start)
			}
			return transform.HoldSource(o.shared.Follow, read, claim, o.idle()), nil
		},
	}
	loop, err := takeover.Open(ctx)
	if err != nil {
		return nil, o.Cluster.Explain(err)
	}
	loop.Name, loop.Stats, loop.Log, loop.Grace = "transform", o.Stats, o.Log.With("stage", "transform", "partition", p.String()), min(o.Grace(), system.RebalanceTimeout*8/10)
	loop.Spread, loop.Renew, loop.Epochs = spread, &pipeline.Renewal{Every: o.renew.Every, Markers: positions.Markers}, positions.Epochs(loop.Start)
	loop.Outputs = &start.Outputs{Positions: positions, Partition: p}
	if len(o.Config.Source.Partitions) > 0 { // otherwise the group says who owns the partition
		loop.Check = ownerCheck
	}
	loop.Trace = o.Traces.Loop("transform", p.Topic, o.Config.Source.Group)
	return loop, nil
}

// shares returns the number of partitions that share a budget of episodes in time. Where some are added, the group divides all of them again.
func (o *transforms) shares(ctx context.Context) (int, error) {
	if o.shared.Alarms.Topic == "" {
		return 1, nil
	}
	parts, err := source.Partitions(ctx, o.Cluster, o.Config.Source.Topic)
	return len(parts), err
}

// becomes says how much text is made of a message; nil: none.
func (o *transforms) becomes() func(*source.Message) int64 {
	if o.shared.Output.Format == encode.FormatArrow {
		return nil
	}
	return o.shared.Becomes
}

// idle returns the interval of the empty batches of a quiet partition.
func (o *transforms) idle() time.Duration { return min(o.renew.Every/2, transformIdle) }

// read opens a partition's reader.
func (o *transforms) read(ctx context.Context, p source.Partition, positions *start.Positions, claim source.Claim, start source.Offsets) (pipeline.Source, error) {
	claim.Next, claim.Epochs = nil, nil
	bytes, parts := o.batches()
	src, err := o.Reader(ctx, source.KafkaConfig{
		Start: start, Epochs: positions.Epochs(start), TopicIDs: positions.TopicIDs(), Claim: claim, GatherBytes: bytes,
		GatherParts: parts, Rate: o.Rate, IdleWait: o.idle(), OnGap: o.gaps.Pass, Becomes: o.becomes(),
	}, o.whitened())
	if err != nil {
		return nil, err
	}
	o.lags.add(ctx, p, src)
	if o.Config.Transform.PinVersion != 0 {
		return src, nil
	}
	paced := &pacedSource{
		Source: src, partition: p, every: o.Config.Snapshot.Every, idle: o.idle(), young: o.young, log: o.Log.With("stage", "transform"),
		behind:  func() int64 { at := src.Lag()[p]; return at.Stable - at.Next },
		known:   func() bool { return o.known(p) },
		catchUp: func(ctx context.Context) error { return o.catchUp(ctx, p) },
	}
	if o.progress != nil {
		paced.learner = o.progress
	} else {
		paced.learner, paced.fresh = committedAt{o.Process}, pacePatience+2*paced.every
	}
	return paced, nil
}

// young reports whether a model knows few rows. With a model for each value new ones come at any time.
func (o *transforms) young() bool {
	m := o.shared.Follow.Current()
	return o.models != nil || m == nil || m.Version < matureRows
}

// known reports whether there is a model for some rows of a partition.
func (o *transforms) known(p source.Partition) bool {
	if o.models == nil {
		return o.shared.Follow.Current() != nil
	}
	return o.models.Index(p.ID).Len() > 0
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
	needed, output, features := s.Needed(), system.OutputOf(s.Config), len(s.Config.Source.Features)
	if needed.Only && output.Passthrough {
		needed.OnlyOf = output.Format.Copied()
		if needed.Only = len(needed.OnlyOf) > 0 && (features > 1 || output.Layout != encode.LayoutColumns); needed.Only {
			needed.Also = output.Names(features)
		}
	}
	return needed
}

func (s *whitening) transformConfig(ctx context.Context) (transform.TransformConfig, error) {
	c := s.Config
	dead, err := s.DeadLetter(ctx)
	if err != nil {
		return transform.TransformConfig{}, err
	}
	alarms, err := s.Alarms(ctx)
	if err != nil {
		return transform.TransformConfig{}, err
	}
	until := c.UntilModel()
	if s.fromHistory {
		until = transform.Hold
	}
	var registry encode.Registry
	if s.Registry != nil {
		registry = s.Registry
	}
	return transform.TransformConfig{
		Registry: registry,
		Group:    c.Source.Group, Topic: c.Transform.Topic, Columns: c.Source.Features,
		Output:     system.OutputOf(c),
		Components: c.Transform.Components,
		UntilModel: until, OnInvalid: c.Source.OnInvalid,
		Alarms: alarms, DeadLetter: dead, DeadLog: &reject.DeadLog{Log: s.Log, Now: time.Now}, Stats: s.Stats, Log: s.Log, Now: time.Now,
		Follow: s.follow(), Engines: s.Engines,
		Series: c.Series(), States: s.states(), Budget: c.Alarms.Budget,
	}, nil
}

// states is the topic of the states of series; nil: there is none.
func (s *whitening) states() *transform.StateTopic {
	name := s.Config.StateTopic()
	if name == "" {
		return nil
	}
	back := s.statesOf()
	return &transform.StateTopic{Name: name, Read: func(ctx context.Context, of source.Partition, each func(*source.Fetched) error) error {
		return back(of).Read(ctx, each)
	}}
}

// statesOf reads back the partition of the topic of states that is a partition's; nil: there is none.
func (s *whitening) statesOf() func(source.Partition) *checkpoint.ReadBack {
	name := s.Config.StateTopic()
	if name == "" {
		return nil
	}
	return func(of source.Partition) *checkpoint.ReadBack {
		return s.ReadBackOf(source.Partition{Topic: name, ID: of.ID}, source.Latest)
	}
}

func (s *whitening) follow() *models.Follow {
	c := s.Config
	log := s.ReadBackOf(source.Partition{Topic: c.Snapshot.Topic}, source.LatestStable)
	return &models.Follow{
		Open: log.Open, End: log.End, Topic: log.Topic, ModelID: c.Snapshot.ModelID, Source: c.Source.Topic, Group: c.Source.Group, Learns: s.progress != nil,
		Features: c.Source.Features, Pin: c.Transform.PinVersion, Most: s.VersionBytes(), Stats: s.Stats, Log: s.Log,
	}
}

// snapshotFetch is how many bytes of snapshots are read at a time: every partition may read some at the same time.
const snapshotFetch = 1 << 20

// A batch of a transform with a model for each message, see transforms.batches. The larger it is, the more of its messages are of the same model, which is
// then fetched once for all of them. More bytes would take more than the 256 MiB that a process may have in addition to model.memory.
const (
	keyedTransformGather = 7 << 19
	keyedTransformParts  = 20
)

// transformKeyed whitens with a model for each value of model.by until ctx ends.
func (s *whitening) transformKeyed(ctx context.Context) error {
	shared, err := s.transformConfig(ctx)
	if err != nil {
		return err
	}
	if s.progress == nil { // the learner of this process has asked
		if err := s.KeyedFits(ctx); err != nil {
			return system.Stopped(ctx, err)
		}
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	byKey := s.keyedModels(&shared, fail)
	defer byKey.Keep(nil)
	err = s.whiten(ctx, shared, byKey)
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause // nil, or why the snapshot topic cannot be followed
	}
	return err
}

func (s *whitening) keyedModels(shared *transform.TransformConfig, fail func(error)) *models.KeyedModels {
	c := s.Config
	return &models.KeyedModels{
		Open: func(ctx context.Context, partition int32, from int64) (models.ModelLog, error) {
			return s.OpenPartition(ctx, source.Partition{Topic: c.Snapshot.Topic, ID: partition}, from, snapshotFetch)
		},
		End: func(ctx context.Context, partition int32) (int64, error) {
			return s.EndOf(ctx, source.Partition{Topic: c.Snapshot.Topic, ID: partition}, source.LatestStable)
		},
		Failed: fail,
		Topic:  c.Snapshot.Topic, ModelID: c.Snapshot.ModelID, Source: c.Source.Topic, Group: c.Source.Group, Features: c.Source.Features,
		By: c.Model.By, Memory: s.ModelMemory(),
		Components: shared.Components,
		Learns:     s.progress != nil,
		Explains:   shared.Output.Why > 0 || shared.Output.Imputed,
		AlarmsTo:   shared.Alarms.To, Stats: s.Stats, Log: s.Log.With("stage", "transform"),
	}
}

// stage is a partition's stage.
func (o *transforms) stage(t transform.Transform) pipeline.Stage {
	if o.models == nil {
		return &t
	}
	return &transform.KeyedTransform{Transform: t, Models: o.models}
}

// catchUp reads the newest models of a partition.
func (o *transforms) catchUp(ctx context.Context, p source.Partition) error {
	if o.models == nil {
		return o.shared.Follow.CatchUp(ctx)
	}
	return o.models.CatchUp(ctx, p.ID)
}

// positionsOf are those of all partitions, or with keys those of one: its start markers are in the same partition of the checkpoint topic.
func (o *transforms) positionsOf(p source.Partition) *start.Positions {
	if o.models == nil {
		return o.positions
	}
	at := o.KeyedTransformPositions(p.ID)
	at.Written, at.States = o.positions.Written, o.positions.States
	return at
}

// keptModels are members that tell which partitions they own: the models of others are forgotten, and those of partitions that stay are not
// read again.
type keptModels struct {
	pipeline.Members
	models *models.KeyedModels
}

// Next waits for the next generation.
func (m *keptModels) Next(ctx context.Context) (pipeline.Ownership, error) {
	own, err := m.Members.Next(ctx)
	if err != nil {
		return nil, err
	}
	var ids []int32
	for _, p := range own.Owned() {
		ids = append(ids, p.ID)
	}
	m.models.Keep(ids)
	return own, nil
}
