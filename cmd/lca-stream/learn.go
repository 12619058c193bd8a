package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// learnCommand is `lca-stream learn`.
func learnCommand(p *program) *cobra.Command {
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
			if file, err = readSnapshotFile(from); err != nil {
				return fmt.Errorf("--from-snapshot: %w", err)
			}
		}
		return nil
	}
	topics := func(c *config.Config) (names []string, err error) {
		if from != "" {
			err = notKeyed(c, "--from-snapshot", "there is no one model to begin with")
		}
		if *history {
			err = checkHistory(c)
		}
		return []string{c.Source.Topic, c.Snapshot.Topic, c.Checkpoint.Topic}, err
	}
	return systemCommand(p, c, topics, func(ctx context.Context, s *Process) error {
		warm, err := file, error(nil)
		if number, ok := version(from); ok {
			warm, err = s.published(ctx, number)
		}
		if err != nil {
			return stopped(ctx, err)
		}
		l := &learning{Process: s, fromHistory: *history}
		if l.fromHistory {
			l.warnEager()
		}
		return l.learnAlone(ctx, warm)
	})
}

// runCommand is `lca-stream run`.
func runCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "Learn and whiten in one process",
		Long: `Runs the learner and the transform in one process: records are whitened live with a metric that is
learnt from the same topic. The two use groups of their own (source.group and <source.group>.learn) and
never wait for one another, except with --from-history: at the first start of a model nothing is
whitened, and no row is skipped, until all records that are there have been learnt.`,
		Example: "  lca-stream run -c stream.yaml\n  lca-stream run -c stream.yaml --from-history",
	}
	history := historyFlag(c.Flags())
	topics := func(c *config.Config) (names []string, err error) {
		if *history {
			err = checkHistory(c)
		}
		return withOptional(c, c.Source.Topic, c.Transform.Topic, c.Snapshot.Topic, c.Checkpoint.Topic), err
	}
	return systemCommand(p, c, topics, func(ctx context.Context, s *Process) error {
		return runBoth(ctx, s, *history)
	})
}

// learning is the learner of a process.
type learning struct {
	*Process

	fromHistory bool // --from-history
}

// learnAlone also follows its own snapshots, so that the page and the metrics show the model. It reports the
// learner's lag, which in one process with a transform is the transform's.
func (s *learning) learnAlone(ctx context.Context, warm *snapshot.Snapshot) error {
	if s.config.Model.By.Keyed() {
		learns, err := s.keyedLearns(ctx)
		if err != nil {
			return stopped(ctx, err)
		}
		return s.learnKeyed(ctx, learns, true)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	following, stop := context.WithCancel(ctx)
	follower := make(chan struct{})
	go func() {
		defer close(follower)
		follow := (&whitening{Process: s.Process, learns: true}).follow()
		err := follow.Run(following)
		switch {
		case follow.Contested() != nil:
			fail(err)
		case err != nil: // the learner itself does not need the model
			s.log.Warn("the current model is not shown", "error", err)
		}
	}()
	defer func() { stop(); <-follower }()
	l, err := s.prepareLearner(ctx, warm)
	if err == nil && l != nil {
		s.stats.SetReady(pipeline.Readiness{Reason: "taking over model " + s.config.Snapshot.ModelID})
		err = s.learn(ctx, l, func() { s.stats.SetReady(pipeline.Readiness{Ready: true}) })
	}
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause // nil, or that another learner has the model
	}
	return err
}

// runBoth runs the learner and the transform together; the first that fails stops the other. What the learner refuses is
// refused before either takes work from another process.
func runBoth(ctx context.Context, process *Process, fromHistory bool) error {
	s, t := &learning{process, fromHistory}, &whitening{Process: process, learns: true, fromHistory: fromHistory}
	if s.config.Model.By.Keyed() {
		learns, err := s.keyedLearns(ctx)
		if err != nil {
			return stopped(ctx, err)
		}
		g, gctx := errgroup.WithContext(ctx)
		g.Go(func() error { return s.learnKeyed(gctx, learns, false) })
		g.Go(func() error { return t.transform(gctx) })
		return g.Wait()
	}
	l, err := s.prepareLearner(ctx, nil)
	if err != nil || l == nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.learn(gctx, l, nil) })
	g.Go(func() error { return t.transform(gctx) })
	return g.Wait()
}

// learner is a learner that may begin.
type learner struct {
	parts []source.Partition
	stage *pipeline.Learn
}

// prepareLearner returns a learner, or why there can be none: opening the sink fences a former learner of the model, so
// everything that can be refused is refused before that. It returns nil if ctx has ended.
func (s *learning) prepareLearner(ctx context.Context, warm *snapshot.Snapshot) (*learner, error) {
	s.stats.SetReady(pipeline.Readiness{Reason: "reading the checkpoint of model " + s.config.Snapshot.ModelID})
	parts, err := s.input(ctx)
	if err != nil {
		return nil, stopped(ctx, err)
	}
	if err := s.noValues(ctx, s.config.Snapshot.ModelID); err != nil {
		return nil, stopped(ctx, s.cluster.Explain(err))
	}
	stage, err := s.learnStage(ctx, warm)
	if s.fromHistory && err == nil {
		stage.Backlog = backlog(s.Topics, parts)
	}
	if err == nil {
		err = stage.Check(ctx)
	}
	if err != nil {
		return nil, stopped(ctx, s.cluster.Explain(err))
	}
	return &learner{parts, stage}, nil
}

// learn runs a learner until ctx ends. One that is alone in its process calls opened once it reads; next to a
// transform, opened is nil, and the transform counts what is read.
func (s *learning) learn(ctx context.Context, l *learner, opened func()) error {
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	c, parts, stage := s.config, l.parts, l.stage
	positions := s.positions(learnGroup(c), c.Snapshot.ModelID)
	claim := source.Claim{Group: positions.Group, Generation: -1}
	takeover := &pipeline.Takeover{
		Fence: func(ctx context.Context) (pipeline.Sink, error) {
			id, former := learnID(c.Source, c.Snapshot.ModelID)
			k, err := s.openSink(ctx, id, former)
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
				TopicIDs: positions.TopicIDs(), Claim: claim, GatherBytes: learnGather, IdleWait: learnIdle, OnGap: s.learnerGaps(positions, opened == nil).Pass,
			}}
			src, err := reads.open(ctx, start, stage.HistoryEnd())
			if err != nil {
				return nil, err
			}
			if opened != nil {
				opened()
			}
			go s.watch(watching, "learn", opened != nil, reads.Lag)
			stage.Lag = reads.behind
			return src, nil
		},
	}
	loop, err := takeover.Open(ctx)
	if err != nil {
		return stopped(ctx, s.cluster.Explain(err))
	}
	defer func() { _ = loop.Sink.Close() }()
	defer func() { _ = loop.Source.Close() }()
	loop.Name, loop.Stats, loop.Log, loop.Grace, loop.Uncounted = "learn", s.stats, s.log.With("stage", "learn"), s.grace(), opened == nil
	loop.Spread, loop.Renew, loop.Check, loop.Epochs = spread, s.renewal(ctx, positions), ownerCheck, positions.Epochs(loop.Start)
	loop.Trace = s.traces.Loop("learn", c.Source.Topic, claim.Group)
	err = watched(ctx, positions, loop.Run)
	if err == nil {
		s.log.Info("the learner has stopped", "model_id", c.Snapshot.ModelID, "records_left", stage.Lag())
	}
	return err
}

// learnStage returns the learner of this configuration, which begins with warm where it has no checkpoint.
func (s *Models) learnStage(ctx context.Context, warm *snapshot.Snapshot) (*pipeline.Learn, error) {
	c := s.config
	learner, err := c.Learner(c.LCA.Rank + 1) // the number of features is known only with the first record
	if err != nil {
		return nil, err
	}
	alarms, err := s.alarms(ctx)
	if err != nil {
		return nil, err
	}
	rejects := s.thresholds()
	return &pipeline.Learn{LearnConfig: pipeline.LearnConfig{
		ModelID: c.Snapshot.ModelID, Topic: c.Snapshot.Topic, Keep: c.Snapshot.Keep,
		SnapshotRows: c.Snapshot.EveryRows, SnapshotEvery: c.Snapshot.Every,
		CheckpointRows: c.Checkpoint.EveryRows, CheckpointEvery: c.Checkpoint.Every,
		Columns: c.Source.Features, Learner: learner, SkipWhenBehind: c.LCA.SkipWhenBehind,
		Alarms: alarms, Rejects: &rejects, StopAtRow: c.Source.OnInvalid == pipeline.StopAtRow, Producer: producer(),
		Checkpoints: s.checkpoints(), Newest: s.newestVersion,
		Published: func(ctx context.Context, settled bool) (*snapshot.Snapshot, snapshot.Slots, error) {
			to := source.LatestStable
			if settled {
				to = source.Latest
			}
			a, err := s.snapshots(ctx, to)
			if err != nil {
				return nil, nil, err
			}
			newest, err := newestOf(a, c.Snapshot.ModelID)
			return newest, a.Slots(c.Snapshot.ModelID), err
		},
		WarmStart: warm, Stats: s.stats, Log: s.log, Now: time.Now,
	}}, nil
}

// producer names the program that makes snapshots. It must not change between two runs of one binary, because the
// bytes of a snapshot depend only on data.
func producer() string { return "lca-stream " + buildInfo().Version }

// version returns the version on the snapshot topic that --from-snapshot names; false: it names a file.
func version(from string) (uint64, bool) {
	number, err := strconv.ParseUint(from, 10, 64)
	return number, err == nil
}

// published returns a version on the snapshot topic.
func (s *Models) published(ctx context.Context, version uint64) (*snapshot.Snapshot, error) {
	a, err := s.snapshots(ctx, source.LatestStable)
	if err != nil {
		return nil, err
	}
	snap, err := a.Version(s.config.Snapshot.ModelID, version)
	if err != nil {
		return nil, fmt.Errorf("--from-snapshot %d: %w: see `lca-stream snapshot list`", version, err)
	}
	return snap, nil
}

// newestVersion returns the newest snapshot of the model, nil if there is none. It does not wait for other producers'
// open transactions.
func (s *Models) newestVersion(ctx context.Context) (*snapshot.Snapshot, error) {
	id := s.config.Snapshot.ModelID
	var a *snapshot.Assembler
	reset := func() { a = &snapshot.Assembler{Retain: 1, Most: s.versionBytes(), Only: id} }
	reset()
	add := func(got *source.Fetched) error {
		for _, r := range got.Records {
			_ = a.Add(r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)) // half a snapshot at the beginning, or one that Follow complains of
		}
		return nil
	}
	err := s.readBack(s.config.Snapshot.Topic, source.LatestStable).ReadTail(ctx, reset, add, func() bool { _, ok := a.NewestVersion(id); return ok })
	if err != nil {
		return nil, err
	}
	newest, _ := a.Newest(id)
	return newest, nil
}

// newestOf returns the newest version of a model, nil if there is none. It refuses to go back before one of a newer
// release.
func newestOf(a *snapshot.Assembler, modelID string) (*snapshot.Snapshot, error) {
	if _, err := a.Newer(modelID); err != nil {
		return nil, &pipeline.Stop{Err: err, Remedy: "use that release, or another snapshot.model_id"}
	}
	newest, _ := a.Newest(modelID)
	return newest, nil
}

// snapshots reads the snapshot topic up to source.Latest, as a writer that goes on from it must (see
// pipeline.ReadBack), or up to source.LatestStable, which suffices for a look and waits for no open transaction.
func (s *Models) snapshots(ctx context.Context, to source.At) (*snapshot.Assembler, error) {
	a := &snapshot.Assembler{Most: s.versionBytes()}
	err := s.readBack(s.config.Snapshot.Topic, to).Read(ctx, func(got *source.Fetched) error {
		for _, r := range got.Records {
			if err := a.Add(r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)); err != nil {
				s.log.Warn("a snapshot chunk is unusable", "offset", r.Offset, "error", err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}
