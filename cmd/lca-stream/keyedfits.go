package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// keyedFits refuses, before a partition is taken from another process, a model.by or features that are not those of the models by value: the learner could
// not go on, and until it found out the transform would write null results. It compares the newest model of each partition that this
// pipeline has published. Without source.features each model has those of its own first message.
func (s *Models) keyedFits(ctx context.Context) error {
	columns := s.config.Source.Features
	return s.newestByValue(ctx, func(newest *snapshot.Snapshot) error {
		if err := pipeline.OtherBy(s.config.Snapshot.Topic, newest.ModelID, newest.By, s.config.Model.By); err != nil {
			return err
		}
		if len(columns) == 0 || minibatch.Chosen(columns, newest.Features) {
			return nil
		}
		return &pipeline.Stop{
			Err:    fmt.Errorf("model %q %s", newest.ModelID, pipeline.OtherFeatures(newest.Features, "source.features now says", columns)),
			Remedy: "set another snapshot.model_id to learn new models, or the former features to go on",
		}
	})
}

// checkedTogether is of how many partitions the newest checkpoints are read at once.
const checkedTogether = 8

// keyedLearns returns what the learners of all partitions have in common. It refuses, before a partition is taken, what keyedFits does, and settings with
// which the models that were saved last in each partition cannot go on: nothing is learnt with them.
func (s *Models) keyedLearns(ctx context.Context) (pipeline.LearnConfig, error) {
	stage, err := s.learnStage(ctx, nil)
	if err != nil {
		return pipeline.LearnConfig{}, s.cluster.Explain(err)
	}
	if err := s.ownsModels(ctx); err != nil {
		return pipeline.LearnConfig{}, err
	}
	if err := s.keyedFits(ctx); err != nil {
		return pipeline.LearnConfig{}, err
	}
	return stage.LearnConfig, s.keyedGoesOn(ctx, stage.LearnConfig, (*pipeline.KeyedLearn).Check)
}

// keyedGoesOn checks each partition's models that were saved: whether they can go on with these settings.
func (s *Models) keyedGoesOn(ctx context.Context, learns pipeline.LearnConfig, check func(*pipeline.KeyedLearn, context.Context) error) error {
	parts, err := s.partitions(ctx, s.config.Checkpoint.Topic)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(checkedTogether)
	for _, p := range parts {
		k := &pipeline.KeyedLearn{KeyedLearnConfig: pipeline.KeyedLearnConfig{
			LearnConfig: learns, Partition: source.Partition{Topic: s.config.Source.Topic, ID: p.ID}, States: s.keyedStates(p.ID, source.LatestStable),
			Snapshots: s.readBackOf(source.Partition{Topic: s.config.Snapshot.Topic, ID: p.ID}, source.LatestStable),
		}}
		g.Go(func() error { return check(k, gctx) })
	}
	return s.cluster.Explain(g.Wait())
}

// ownsModels refuses models by value that another pipeline has published last.
func (s *Models) ownsModels(ctx context.Context) error {
	topic := s.config.Snapshot.Topic
	parts, err := s.partitions(ctx, topic)
	if err != nil {
		return err
	}
	var all []*pipeline.ReadBack
	for _, p := range parts {
		all = append(all, s.readBackOf(p, source.LatestStable))
	}
	return s.mayRead(topic, s.owner.Check(ctx, all))
}

// newestByValue hands over the newest model of ours in each partition of the snapshot topic, without its neighbours.
func (s *Models) newestByValue(ctx context.Context, each func(*snapshot.Snapshot) error) error {
	topic := s.config.Snapshot.Topic
	parts, err := s.partitions(ctx, topic)
	if err != nil {
		return err
	}
	for _, p := range parts {
		newest, err := pipeline.NewestByKey(ctx, s.readBackOf(p, source.LatestStable), s.ofThisPipeline)
		if err == nil && newest != nil {
			err = each(newest)
		}
		if err != nil {
			return s.mayRead(topic, err)
		}
	}
	return nil
}

// mayRead adds to an error which right it takes to read one of our topics, where that is missing.
func (s *Topics) mayRead(topic string, err error) error {
	if errors.Is(err, kafka.TopicAuthorizationFailed) {
		return &kafkaconn.Error{Err: err, Remedy: "the user needs READ on topic " + topic}
	}
	return s.cluster.Explain(err)
}

// ofThisPipeline reports whether a record of the snapshot topic is of a model of ours, which our group has published.
func (s *Models) ofThisPipeline(r *source.Record) bool {
	group := source.LastHeader(r.Headers, "lca-group")
	return s.ofModel(source.LastHeader(r.Headers, "lca-model-id")) && cmp.Or(group, s.config.Source.Group) == s.config.Source.Group
}
