package run

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// LearnCommand is `lca-stream learn`.
func LearnCommand(p *app.Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "learn",
		Short: "Learn the metric of the source topic and publish snapshots",
		Long: `Learns from all partitions of the source topic and publishes snapshots to the snapshot topic.
There is one learner per model: a second one of the same source.group and source.topic takes over, and
the first stops with exit code 3; one of another group or topic is refused with exit code 2.
A restart resumes from the last checkpoint, bit for bit. Where there is none it goes on from
--from-snapshot, or else from the newest snapshot of the model on the topic, which a replay or an import
has put there, and reads from source.start_offset.`,
		Example: "  lca-stream learn -c stream.yaml\n  lca-stream learn -c stream.yaml --from-history",
	}
	var from string
	history := historyFlag(c.Flags())
	c.Flags().StringVar(&from, "from-snapshot", "", "start from a snapshot where there is no checkpoint: a `FILE`, or a version on the snapshot topic")
	c.MarkFlagsMutuallyExclusive("from-snapshot", "from-history")
	var file *snapshot.Snapshot
	c.PreRunE = func(*cobra.Command, []string) (err error) {
		if _, isVersion := version(from); from != "" && !isVersion {
			if file, err = app.ReadSnapshotFile(from); err != nil {
				return fmt.Errorf("--from-snapshot: %w", err)
			}
		}
		return nil
	}
	topics := func(c *config.Config) (names []string, err error) {
		if from != "" {
			err = app.OneModelFlag(c, "--from-snapshot", "there is no one model to begin with")
		}
		if *history {
			err = checkHistory(c)
		}
		return []string{c.Source.Topic, c.Snapshot.Topic, c.Checkpoint.Topic}, err
	}
	return system.Command(p, c, topics, func(ctx context.Context, s *system.Process) error {
		warm, err := file, error(nil)
		if number, ok := version(from); ok {
			warm, err = s.Published(ctx, number)
		}
		if err != nil {
			return system.Stopped(ctx, err)
		}
		l := &learning{Process: s, fromHistory: *history}
		if l.fromHistory {
			l.warnEager()
		}
		return l.learnAlone(ctx, warm)
	})
}

// learning is the learner of a process.
type learning struct {
	*system.Process

	fromHistory bool      // --from-history
	progress    *progress // of a transform in this process; nil: there is none
}

// learnAlone also follows its own snapshots, so that the page and the metrics show the model. It reports the
// learner's lag, which in one process with a transform is the transform's.
func (s *learning) learnAlone(ctx context.Context, warm *snapshot.Snapshot) error {
	if s.Config.Model.By.Keyed() {
		learns, err := s.KeyedLearns(ctx)
		if err != nil {
			return system.Stopped(ctx, err)
		}
		return s.learnKeyed(ctx, learns, true)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	following, stop := context.WithCancel(ctx)
	follower := make(chan struct{})
	go func() {
		defer close(follower)
		follow := (&whitening{Process: s.Process}).follow()
		follow.Learns = true
		err := follow.Run(following)
		switch {
		case follow.Contested() != nil:
			fail(err)
		case err != nil: // the learner itself does not need the model
			s.Log.Warn("the current model is not shown", "error", err)
		}
	}()
	defer func() { stop(); <-follower }()
	l, err := s.prepareLearner(ctx, warm)
	if err == nil && l != nil {
		s.Stats.SetReady(stats.Readiness{Reason: "taking over model " + s.Config.Snapshot.ModelID})
		err = s.learn(ctx, l, func() { s.Stats.SetReady(stats.Readiness{Ready: true}) })
	}
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause // nil, or that another learner has the model
	}
	return err
}

// learner is a learner that may begin.
type learner struct {
	parts []source.Partition
	stage *learn.Learn
}

// prepareLearner returns a learner, or why there can be none: opening the sink fences a former learner of the model, so
// everything that can be refused is refused before that. It returns nil if ctx has ended.
func (s *learning) prepareLearner(ctx context.Context, warm *snapshot.Snapshot) (*learner, error) {
	s.Stats.SetReady(stats.Readiness{Reason: "reading the checkpoint of model " + s.Config.Snapshot.ModelID})
	parts, err := s.Input(ctx)
	if err != nil {
		return nil, system.Stopped(ctx, err)
	}
	if err := s.NoValues(ctx, s.Config.Snapshot.ModelID); err != nil {
		return nil, system.Stopped(ctx, s.Cluster.Explain(err))
	}
	stage, err := s.LearnStage(ctx, warm)
	if s.fromHistory && err == nil {
		stage.Backlog = backlog(s.Topics, parts)
	}
	if err == nil {
		err = stage.Check(ctx)
	}
	if err != nil {
		return nil, system.Stopped(ctx, s.Cluster.Explain(err))
	}
	return &learner{parts, stage}, nil
}

// learn runs a learner until ctx ends. One that is alone in its process calls opened once it reads; next to a
// transform, opened is nil, and the transform counts what is read.
func (s *learning) learn(ctx context.Context, l *learner, opened func()) error {
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	c, parts, stage := s.Config, l.parts, l.stage
	positions := s.PositionsFor(system.LearnGroup(c), c.Snapshot.ModelID)
	claim := source.Claim{Group: positions.Group, Generation: -1}
	takeover := &pipeline.Takeover{
		Fence: func(ctx context.Context) (pipeline.Sink, error) {
			id, former := system.LearnID(c.Source, c.Snapshot.ModelID)
			k, err := s.OpenSink(ctx, id, former)
			if err != nil {
				return nil, err
			}
			return k, nil
		},
		Stage: func(k pipeline.Sink) (pipeline.Stage, error) {
			stage.Start = func(ctx context.Context, saved source.Offsets) (source.Offsets, error) {
				return positions.Resume(ctx, k, claim, parts, saved)
			}
			return stage, stage.Checkpoints.Own(ctx, k)
		},
		Read: func(ctx context.Context, start source.Offsets) (pipeline.Source, error) {
			claim.Metadata = positions.Metadata(parts)
			reads := &learnSource{system: s.Process, epochs: positions.Epochs, template: source.KafkaConfig{
				TopicIDs: positions.TopicIDs(), Claim: claim, GatherBytes: system.LearnGather, IdleWait: learnIdle, OnGap: s.LearnerGaps(positions, opened == nil).Pass,
			}}
			src, err := reads.open(ctx, start, stage.HistoryEnd())
			if err != nil {
				return nil, err
			}
			if opened != nil {
				opened()
			}
			go s.Watch(watching, "learn", opened != nil, reads.Lag)
			stage.Lag = reads.behind
			return s.progress.of(src, start), nil
		},
	}
	loop, err := takeover.Open(ctx)
	if err != nil {
		return system.Stopped(ctx, s.Cluster.Explain(err))
	}
	defer func() { _ = loop.Sink.Close() }()
	defer func() { _ = loop.Source.Close() }()
	loop.Name, loop.Stats, loop.Log, loop.Grace, loop.Uncounted = "learn", s.Stats, s.Log.With("stage", "learn"), s.Grace(), opened == nil
	loop.Spread, loop.Renew, loop.Check, loop.Epochs = spread, s.Renewal(ctx, positions), ownerCheck, positions.Epochs(loop.Start)
	loop.Trace = s.Traces.Loop("learn", c.Source.Topic, claim.Group)
	err = watched(ctx, positions, loop.Run)
	if err == nil {
		s.Log.Info("the learner has stopped", "model_id", c.Snapshot.ModelID, "records_left", stage.Lag())
	}
	return err
}

// version returns the version on the snapshot topic that --from-snapshot names; false: it names a file.
func version(from string) (uint64, bool) {
	number, err := strconv.ParseUint(from, 10, 64)
	return number, err == nil
}

// keyedGather is how much one Read of a keyed learner gathers: of more messages more are of the same model, which then comes
// into memory once for all of them.
const keyedGather = 1 << 20

// learnKeyed learns a model for each value of model.by until ctx ends, of the partitions that the group of the learners gives
// this process; learns is what KeyedLearns returned. alone: there is no transform in this process, which counts what is read and says whether it is ready.
func (s *learning) learnKeyed(ctx context.Context, learns learn.LearnConfig, alone bool) error {
	if alone {
		s.Stats.SetReady(stats.Readiness{Reason: "waiting for partitions"})
	}
	members, leave, err := s.MembersOf(ctx, system.LearnGroup(s.Config), alone)
	if err != nil {
		return system.Stopped(ctx, err)
	}
	defer leave()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	l := &keyedLearners{
		learning: s, alone: alone, lags: newLags(), config: learns, positions: s.KeyedPositions(0),
		memory: learn.NewModelMemory(int64(s.ModelMemory()), s.Stats.ModelCounts("learn")),
	}
	l.renew = s.Renewal(ctx, l.positions)
	go s.Watch(watching, "learn", alone, l.lags.read)
	t := &pipeline.Transforms{Members: members, Log: s.Log.With("stage", "learn"), Stage: "learn", Open: l.open}
	if alone {
		t.Stats = s.Stats
	}
	return watched(ctx, l.positions, t.Run)
}

// keyedLearners opens the learners of partitions, and holds what they share.
type keyedLearners struct {
	*learning
	alone     bool
	config    learn.LearnConfig
	memory    *learn.ModelMemory
	positions *start.Positions // of all partitions
	renew     *pipeline.Renewal
	lags      *lags

	owner   sync.Mutex // guards what follows
	claimed bool
	asked   time.Time
}

// ownsEvery is how often a process looks whether another pipeline publishes its models, while it publishes.
const ownsEvery = 5 * time.Second

// owns is OwnsModels for all partitions, now and then.
func (l *keyedLearners) owns(ctx context.Context) error {
	l.owner.Lock()
	defer l.owner.Unlock()
	if time.Since(l.asked) < ownsEvery {
		return nil
	}
	if err := l.OwnsModels(ctx); err != nil {
		return err
	}
	l.asked = time.Now()
	return nil
}

// claim claims the models for this pipeline, once for all partitions.
func (l *keyedLearners) claim(ctx context.Context, k pipeline.Sink) error {
	l.owner.Lock()
	defer l.owner.Unlock()
	if l.claimed {
		return nil
	}
	if err := l.KeyedClaims().Own(ctx, k); err != nil {
		return err
	}
	l.claimed = true
	return nil
}

// open opens one partition's learner, in the order of a takeover.
func (l *keyedLearners) open(ctx context.Context, p source.Partition, claim source.Claim) (*pipeline.Loop, error) {
	parts := []source.Partition{p}
	positions := l.KeyedPositions(p.ID)
	takeover := &pipeline.Takeover{
		Fence: func(ctx context.Context) (pipeline.Sink, error) {
			return l.OpenKeyedSink(ctx, p.ID)
		},
		Stage: func(k pipeline.Sink) (pipeline.Stage, error) {
			return l.stage(p, k, func(ctx context.Context) (source.Offsets, error) { return positions.Open(ctx, k, claim, parts) }), nil
		},
		Read: func(ctx context.Context, start source.Offsets) (pipeline.Source, error) {
			claim := claim
			claim.Metadata = positions.Metadata(parts)
			src, err := l.Reader(ctx, source.KafkaConfig{
				Start: start, Epochs: positions.Epochs(start), TopicIDs: positions.TopicIDs(), Claim: claim, GatherBytes: keyedGather,
				IdleWait: learnIdle, OnGap: l.LearnerGaps(positions, !l.alone).Pass,
			}, l.Needed())
			if err != nil {
				return nil, err
			}
			l.lags.add(ctx, p, src)
			return l.progress.of(src, start), nil
		},
	}
	loop, err := takeover.Open(ctx)
	if err != nil {
		return nil, l.Cluster.Explain(err)
	}
	loop.Name, loop.Stats, loop.Log, loop.Grace = "learn", l.Stats, l.Log.With("stage", "learn", "partition", p.String()), min(l.Grace(), system.RebalanceTimeout*8/10)
	loop.Spread, loop.Uncounted, loop.Epochs = spread, !l.alone, positions.Epochs(loop.Start)
	loop.Renew = &pipeline.Renewal{Every: l.renew.Every, Markers: positions.Markers}
	if claim.Member == "" { // otherwise the group says who owns the partition
		loop.Check = ownerCheck
	}
	loop.Trace = l.Traces.Loop("learn", p.Topic, claim.Group)
	return loop, nil
}

func (l *keyedLearners) stage(p source.Partition, k pipeline.Sink, committed func(context.Context) (source.Offsets, error)) *learn.KeyedLearn {
	c, own := l.System.Config, l.config
	own.Lag = func() (behind int64) {
		lag := l.lags.read()[p]
		return max(lag.Stable-lag.Next, 0)
	}
	claim := func(ctx context.Context) error { return l.claim(ctx, k) }
	return &learn.KeyedLearn{KeyedLearnConfig: learn.KeyedLearnConfig{
		LearnConfig: own, By: c.Model.By, Partition: p, Memory: l.memory, Idle: c.Model.Idle, Committed: committed, Owns: l.owns, Claim: claim,
		States: l.KeyedStates(p.ID, source.Latest), Snapshots: l.ReadBackOf(source.Partition{Topic: c.Snapshot.Topic, ID: p.ID}, source.Latest),
	}}
}

// historyFlag adds the flag of the commands that learn.
func historyFlag(flags *pflag.FlagSet) *bool {
	return flags.Bool("from-history", false, "at the first start of a model learn all that is there, without skipping rows, before the first version is published")
}

// checkHistory refuses --from-history where there is no history to begin with.
func checkHistory(c *config.Config) error {
	if err := app.OneModelFlag(c, "--from-history", "each model begins with the first row of its value that is read (`lca-stream replay` learns the history of all values before)"); err != nil {
		return err
	}
	if c.Source.StartOffset == config.StartLatest {
		return app.UsageError("--from-history: source.start_offset is latest, which leaves the history out: set it to earliest")
	}
	return nil
}

// warnEager warns that transforms do not wait for the history: a learner cannot tell those of other processes.
func (s *learning) warnEager() {
	if u := s.Config.UntilModel(); u != transform.Hold {
		s.Log.Warn("transforms of this configuration do not wait until the history is learnt; set transform.until_model to hold", "until_model", u)
	}
}

// backlog returns where the records end that a learner of these partitions learns before its first version.
func backlog(s *system.Topics, parts []source.Partition) func(context.Context) (source.Offsets, error) {
	return func(ctx context.Context) (source.Offsets, error) {
		return source.ListOffsets(ctx, s.Cluster, parts, source.LatestStable) // what is behind it may be taken back
	}
}

// learnSource opens the source of a learner: what comes, or the history before it. The template has all but the range.
type learnSource struct {
	system   *system.Process
	template source.KafkaConfig
	epochs   func(source.Offsets) source.Epochs

	lag atomic.Pointer[func() map[source.Partition]source.Lag] // of what is open
}

// open begins at start; end is that of the history, nil if none is to be learnt first.
func (l *learnSource) open(ctx context.Context, start, end source.Offsets) (pipeline.Source, error) {
	if end == nil {
		return l.live(ctx, start)
	}
	return &learn.History{Past: l.past, Live: l.live, End: end, Next: start.Clone(), Claim: l.template.Claim}, nil
}

func (l *learnSource) live(ctx context.Context, start source.Offsets) (pipeline.Source, error) {
	k := l.template
	k.Start, k.Epochs = start, l.epochs(start)
	src, err := l.system.Reader(ctx, k, l.system.Needed())
	if err != nil {
		return nil, err
	}
	lag := src.Lag
	l.lag.Store(&lag)
	return src, nil
}

func (l *learnSource) past(ctx context.Context, from, to source.Offsets) (pipeline.Source, error) {
	k := l.template
	k.Epochs = l.epochs(from)
	merged, lag, err := l.system.Merged(ctx, k, from, to)
	if err != nil {
		return nil, err
	}
	l.lag.Store(&lag)
	return merged, nil
}

// Lag returns how far each partition is behind; none before the source is open.
func (l *learnSource) Lag() map[source.Partition]source.Lag {
	lag := l.lag.Load()
	if lag == nil {
		return nil
	}
	return (*lag)()
}

// behind returns the number of records up to the ends of the partitions.
func (l *learnSource) behind() (records int64) {
	for _, lag := range l.Lag() {
		records += max(lag.High-lag.Next, 0)
	}
	return records
}
