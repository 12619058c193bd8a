package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// learnGroup is the group under which the learner commits.
func learnGroup(c *config.Config) string { return c.Source.Group + ".learn" }

// positions decides where the partitions of a group are read from; model is set for a learner.
func (s *Positions) positions(group, model string) *pipeline.Positions {
	at, stage := source.Earliest, "transform"
	if model != "" {
		stage = "learn"
	}
	if s.config.Source.StartOffset == config.StartLatest {
		at = source.Latest
	}
	return &pipeline.Positions{
		Places: places{cluster: s.cluster}, Starts: s.starts, Group: group, Topic: s.config.Source.Topic, Start: at, Model: model,
		Log: s.log.With("stage", stage),
	}
}

// keyedPositions decides where the learners of models by key read a partition from.
func (s *Positions) keyedPositions(partition int32) *pipeline.Positions {
	p := s.positions(learnGroup(s.config), "")
	p.Models = pipeline.ModelsNote(s.config.Checkpoint.Topic, s.config.Snapshot.ModelID)
	p.Starts, p.Home, p.Log = s.keyedStarts.of(partition), s.keyedStarts.of(0), s.log.With("stage", "learn")
	return p
}

// written looks at the ends of outputs and dead letters.
func (s *Positions) written(dead pipeline.DeadLetter) *pipeline.Written {
	w := &pipeline.Written{Group: s.config.Source.Group, Topics: []string{s.config.Transform.Topic}}
	if dead.Topic != "" {
		w.Topics = append(w.Topics, dead.Topic)
	}
	w.Place = func(topic string, of source.Partition) int32 {
		if topic == dead.Topic {
			return dead.Place(of.ID)
		}
		return of.ID
	}
	w.Read = func(topic string, partition int32, _ source.Partition) *pipeline.ReadBack {
		return s.readBackOf(source.Partition{Topic: topic, ID: partition}, source.Latest)
	}
	return w
}

// ends is what the group has written so far; nil where the topics for it are not there yet.
func (s *Positions) ends(ctx context.Context) (*pipeline.Written, error) {
	dead, err := s.deadLetter(ctx)
	if err == nil {
		_, err = s.partitions(ctx, s.config.Transform.Topic)
	}
	if errors.As(err, new(*missingTopic)) {
		return nil, nil
	}
	return s.written(dead), err
}

func (s *Positions) startMarkers() *pipeline.Starts {
	topic := s.config.Checkpoint.Topic
	return &pipeline.Starts{Topic: topic, Open: s.openLog(topic), End: s.end(topic, source.Latest), Log: s.log}
}

// checkpoints are those of the model of all rows.
func (s *Models) checkpoints() *pipeline.Checkpoints {
	topic := s.config.Checkpoint.Topic
	c := s.config
	return &pipeline.Checkpoints{
		Topic: topic, ModelID: c.Snapshot.ModelID, Owner: s.ours(),
		Open: s.openLog(topic), OpenAt: s.openLogAt(topic), Log: s.log,
		End: s.end(topic, source.Latest), Stable: s.end(topic, source.LatestStable),
	}
}

// keyedClaims say whose the models by key are.
func (s *Models) keyedClaims() *pipeline.Checkpoints {
	c := s.checkpoints()
	c.By = s.config.Model.By.String()
	return c
}

// places implements pipeline.Places with the brokers.
type places struct {
	cluster *kafkaconn.Cluster
	looks   bool // what is committed so far counts: nothing is read by it
}

// Committed asks the group's coordinator.
func (p places) Committed(ctx context.Context, group string, parts []source.Partition) (map[source.Partition]source.Position, error) {
	if p.looks {
		return source.CommittedSoFar(ctx, p.cluster, group, parts)
	}
	return source.Committed(ctx, p.cluster, group, parts)
}

// Offsets asks the leaders of the partitions.
func (p places) Offsets(ctx context.Context, parts []source.Partition, at source.At) (source.Offsets, error) {
	return source.ListOffsets(ctx, p.cluster, parts, at)
}

// Topic asks any broker.
func (p places) Topic(ctx context.Context, name string) (source.Topic, error) {
	return source.LookUp(ctx, p.cluster, name)
}

// topicEvery is how often a process checks whether the source topic is still the one that it reads.
const topicEvery = 10 * time.Second

// watched runs work until it ends, or until the source topic is another one.
func watched(ctx context.Context, positions *pipeline.Positions, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return positions.Watch(gctx, topicEvery) })
	g.Go(func() error { defer stop(); return work(gctx) })
	return g.Wait()
}

// transformIdle is the longest interval of the empty batches of a quiet partition.
const transformIdle = 10 * time.Second

// renewal commits offsets again ten times within their retention, or once an hour if that is not known: mostly the
// process has no right to ask.
func (s *Positions) renewal(ctx context.Context, positions *pipeline.Positions) *pipeline.Renewal {
	every := time.Hour
	kept, err := source.OffsetRetention(ctx, s.cluster, s.config.Source.Topic)
	if err != nil {
		s.log.Debug("the brokers do not say how long they keep offsets: these are committed again once an hour", "error", err)
	} else {
		every = min(every, kept/10)
	}
	return &pipeline.Renewal{Every: every, Markers: positions.Markers}
}

// gaps decides about records that are gone.
func (s *Positions) gaps(positions *pipeline.Positions) *pipeline.Gaps {
	return &pipeline.Gaps{Skip: s.config.Source.OnGap == config.Skip, Check: positions.Check, Stats: s.stats, Log: s.log}
}

// learnerGaps does so for a learner. inRun: it is the learner of `run`, which need not learn what the transform has
// read.
func (s *Positions) learnerGaps(positions *pipeline.Positions, inRun bool) *pipeline.Gaps {
	g := s.gaps(positions)
	g.Learner, g.Keyed = true, s.keyed()
	if inRun {
		g.Done = func(ctx context.Context, p source.Partition) (int64, error) {
			found, err := source.Committed(ctx, s.cluster, s.config.Source.Group, []source.Partition{p})
			return found[p].Next, err
		}
	}
	return g
}
