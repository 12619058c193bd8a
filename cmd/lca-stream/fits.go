package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// tried refuses a snapshot that the learner could not go on from, before that learner is fenced and not after. It
// does not wait for open transactions.
func (s *Publisher) tried(ctx context.Context, newest, snap *snapshot.Snapshot) error {
	if err := s.noValues(ctx, snap.ModelID); err != nil {
		return err
	}
	stage, c, err := s.checkpointOf(ctx, snap.ModelID, (*pipeline.Checkpoints).Peek)
	if err == nil {
		err = s.fits(c, newest, snap)
	}
	if err == nil && c != nil {
		_, err = stage.Replace(c, snap, nil)
	}
	return err
}

// fits refuses a snapshot whose features are not those of the transforms and of the learner of its id. c is that
// learner's checkpoint, whose features Replace compares, and newest the id's newest snapshot; either may be nil.
func (s *Publisher) fits(c *pipeline.Checkpoint, newest, snap *snapshot.Snapshot) error {
	columns := s.config.Source.Features
	if !minibatch.Chosen(columns, snap.Features) {
		return &pipeline.Stop{
			Err:    fmt.Errorf("the model to be published as %q %s", snap.ModelID, pipeline.OtherFeatures(snap.Features, "source.features says", columns)),
			Remedy: "publish it with another snapshot.model_id and a source.features that names its features, or make it from those of source.features",
		}
	}
	if c == nil && newest != nil && len(columns) == 0 && !slices.Equal(newest.Features, snap.Features) {
		return &pipeline.Stop{
			Err: fmt.Errorf("the model to be published as %q %s", snap.ModelID, pipeline.OtherFeatures(snap.Features,
				fmt.Sprintf("version %d of that id on topic %s has", newest.Version, s.config.Snapshot.Topic), newest.Features)),
			Remedy: "publish it with another snapshot.model_id",
		}
	}
	return nil
}

// fitsAtStart refuses a replay whose snapshot would be refused when it is published, because of its features, before a
// row is read. Where the features follow from the rows, it returns those that they must be.
func (s *Publisher) fitsAtStart(ctx context.Context) (must []string, err error) {
	id, columns := s.config.Snapshot.ModelID, s.config.Source.Features
	_, c, err := s.checkpointOf(ctx, id, (*pipeline.Checkpoints).Peek)
	if err != nil {
		return nil, s.cluster.Explain(err)
	}
	switch {
	case c != nil && len(columns) > 0 && !minibatch.Chosen(columns, c.Features):
		return nil, misfit(id, c.Features, "source.features now says", columns)
	case len(columns) > 0:
		return nil, nil
	case c != nil:
		return c.Features, nil
	}
	newest, err := s.newestVersion(ctx)
	if err != nil || newest == nil {
		return nil, s.cluster.Explain(err)
	}
	return newest.Features, nil
}

// misfit is the error about rows of other features than those of the model that a replay would replace.
func misfit(id string, learnt []string, asks string, now []string) error {
	return &pipeline.Stop{
		Err:    fmt.Errorf("model %q %s: a snapshot of these cannot take its place", id, pipeline.OtherFeatures(learnt, asks, now)),
		Remedy: "give the snapshot an id of its own with --model-id",
	}
}
