package system

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/start"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Positions decides where partitions are read from.
type Positions struct {
	*Models

	starts startMarkers
}

// LearnGroup is the group under which the learner commits.
func LearnGroup(c *config.Config) string { return c.Source.Group + ".learn" }

// makeTopics creates our topics before the first start of a pipeline. What is not created is said by those who look for it.
func (s *System) makeTopics(ctx context.Context, wants []topics.Want) {
	names, err := topics.Make(ctx, s.Cluster, wants, func() (bool, error) { return s.Begun(ctx) })
	if len(names) > 0 {
		s.Log.Info("topics are created, as this is the first start", "topics", names)
	}
	if err != nil {
		s.Log.Warn("topics that are missing were not created", "error", err, "remedy", "have someone who may create topics run `lca-stream topics init`")
	}
}

// Begun reports whether the learner or the transform has committed an offset.
func (s *System) Begun(ctx context.Context) (bool, error) {
	parts, err := s.Topics.Partitions(ctx, s.Config.Source.Topic)
	for _, group := range []string{s.Config.Source.Group, LearnGroup(s.Config)} {
		if err != nil {
			break
		}
		var at map[source.Partition]source.Position
		at, err = source.CommittedSoFar(ctx, s.Cluster, group, parts)
		for _, one := range at {
			if one.Next >= 0 {
				return true, nil
			}
		}
	}
	return false, err
}

// PositionsFor decides where the partitions of a group are read from; model is set for a learner.
func (s *Positions) PositionsFor(group, model string) *start.Positions {
	at, stage := source.Earliest, "transform"
	if model != "" {
		stage = "learn"
	}
	if s.Config.Source.StartOffset == config.StartLatest {
		at = source.Latest
	}
	return &start.Positions{
		Places: Places{Cluster: s.Cluster}, Starts: s.starts.of(0), Group: group, Topic: s.Config.Source.Topic, Start: at, Model: model,
		Log: s.Log.With("stage", stage),
	}
}

// PositionsIn are those of one partition, of the learner of a model id, or of a transform where model is "". With a model for each value its start
// markers are in the same partition of the checkpoint topic.
func (s *Positions) PositionsIn(p source.Partition, group, model string) *start.Positions {
	switch {
	case !s.Keyed():
		return s.PositionsFor(group, model)
	case model != "":
		return s.KeyedPositions(p.ID)
	}
	return s.KeyedTransformPositions(p.ID)
}

// KeyedPositions decides where the learners of models by key read a partition from.
func (s *Positions) KeyedPositions(partition int32) *start.Positions {
	p := s.PositionsFor(LearnGroup(s.Config), "")
	p.Models = start.ModelsNote(s.Config.Checkpoint.Topic, s.Config.Snapshot.ModelID)
	p.Home, p.Starts, p.Log = p.Starts, s.starts.of(partition), s.Log.With("stage", "learn")
	return p
}

// KeyedTransformPositions decides where the transforms read a partition from, with a model for each key.
func (s *Positions) KeyedTransformPositions(partition int32) *start.Positions {
	p := s.PositionsFor(s.Config.Source.Group, "")
	p.Home, p.Starts = p.Starts, s.starts.of(partition)
	return p
}

// Known reads what is left of a group. With a model for each value the start markers are in as many partitions as the source has.
func (s *Positions) Known(ctx context.Context, group, model string) (start.Known, error) {
	look := func(p source.Partition) (start.Known, error) {
		at := s.PositionsIn(p, group, model)
		at.Places = Places{Cluster: s.Cluster, Looks: true}
		return at.Known(ctx)
	}
	ours, err := s.Partitions(ctx, s.Config.Checkpoint.Topic)
	if err != nil {
		return start.Known{}, missing(s.Config, s.Config.Checkpoint.Topic, err)
	}
	if !s.Keyed() {
		return look(source.Partition{})
	}
	all, err := look(source.Partition{})
	clear(all.Markers)
	for _, p := range all.Topic.Partitions {
		if err != nil {
			break
		}
		if int(p.ID) >= len(ours) { // the source has gained it, and topics check says so
			continue
		}
		var one start.Known
		if one, err = look(p); err == nil {
			all.Take(&one, p)
		}
	}
	return all, err
}

// Written looks at the ends of outputs and dead letters.
func (s *Positions) Written(dead reject.DeadLetter) *start.Written {
	w := &start.Written{Group: s.Config.Source.Group, Topics: []string{s.Config.Transform.Topic}}
	if dead.Topic != "" {
		w.Topics = append(w.Topics, dead.Topic)
	}
	w.Place = func(topic string, of source.Partition) int32 {
		if topic == dead.Topic {
			return dead.Place(of.ID)
		}
		return of.ID
	}
	w.Read = func(topic string, partition int32, _ source.Partition) *checkpoint.ReadBack {
		return s.ReadBackOf(source.Partition{Topic: topic, ID: partition}, source.Latest)
	}
	return w
}

// Ends is what the group has written so far; nil where the topics for it are not there yet.
func (s *Positions) Ends(ctx context.Context) (*start.Written, error) {
	dead, err := s.DeadLetter(ctx)
	if err == nil {
		_, err = s.Partitions(ctx, s.Config.Transform.Topic)
	}
	if errors.As(err, new(*MissingTopic)) {
		return nil, nil
	}
	return s.Written(dead), err
}

// startMarkers are those in each partition of the checkpoint topic: of a source partition with a model for each key, and otherwise of all in the first
// one. Learner and transform share what was read of them.
type startMarkers struct {
	topics *Topics

	mu    sync.Mutex
	parts map[int32]*start.Starts
}

// of are the start markers in a partition.
func (m *startMarkers) of(partition int32) *start.Starts {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parts == nil {
		m.parts = map[int32]*start.Starts{}
	}
	if m.parts[partition] == nil {
		p := source.Partition{Topic: m.topics.Config.Checkpoint.Topic, ID: partition}
		m.parts[partition] = &start.Starts{ReadBack: *m.topics.ReadBackOf(p, source.Latest), Partition: partition}
	}
	return m.parts[partition]
}

// Renewal commits offsets again ten times within their retention, or once an hour if that is not known: mostly the
// process has no right to ask.
func (s *Positions) Renewal(ctx context.Context, positions *start.Positions) *pipeline.Renewal {
	every := time.Hour
	kept, err := source.OffsetRetention(ctx, s.Cluster, s.Config.Source.Topic)
	if err != nil {
		s.Log.Debug("the brokers do not say how long they keep offsets: these are committed again once an hour", "error", err)
	} else {
		every = min(every, kept/10)
	}
	return &pipeline.Renewal{Every: every, Markers: positions.Markers}
}

// Gaps decides about records that are gone.
func (s *Positions) Gaps(positions *start.Positions) *start.Gaps {
	return &start.Gaps{Skip: s.Config.Source.OnGap == config.Skip, Check: positions.Check, Stats: s.Stats, Log: s.Log}
}

// LearnerGaps does so for a learner. inRun: it is the learner of `run`, which need not learn what the transform has
// read.
func (s *Positions) LearnerGaps(positions *start.Positions, inRun bool) *start.Gaps {
	g := s.Gaps(positions)
	g.Learner, g.Keyed = true, s.Keyed()
	if inRun {
		g.Done = func(ctx context.Context, p source.Partition) (int64, error) {
			found, err := source.Committed(ctx, s.Cluster, s.Config.Source.Group, []source.Partition{p})
			return found[p].Next, err
		}
	}
	return g
}

// Places implements pipeline.Places with the brokers.
type Places struct {
	Cluster *kafkaconn.Cluster
	Looks   bool // what is committed so far counts: nothing is read by it
}

// Committed asks the group's coordinator.
func (p Places) Committed(ctx context.Context, group string, parts []source.Partition) (map[source.Partition]source.Position, error) {
	if p.Looks {
		return source.CommittedSoFar(ctx, p.Cluster, group, parts)
	}
	return source.Committed(ctx, p.Cluster, group, parts)
}

// Offsets asks the leaders of the partitions.
func (p Places) Offsets(ctx context.Context, parts []source.Partition, at source.At) (source.Offsets, error) {
	return source.ListOffsets(ctx, p.Cluster, parts, at)
}

// Topic asks any broker.
func (p Places) Topic(ctx context.Context, name string) (source.Topic, error) {
	return source.LookUp(ctx, p.Cluster, name)
}
