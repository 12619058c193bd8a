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
func (s *system) tried(ctx context.Context, newest, snap *snapshot.Snapshot) error {
	stage, c, err := s.checkpointOf(ctx, snap, (*pipeline.Checkpoints).Peek)
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
func (s *system) fits(c *pipeline.Checkpoint, newest, snap *snapshot.Snapshot) error {
	columns := s.config.Source.Features
	if !minibatch.Chosen(columns, snap.Features) {
		return &pipeline.Stop{
			Err:    fmt.Errorf("the model to be published as %q has features %v, and source.features says %v", snap.ModelID, snap.Features, columns),
			Remedy: "publish it with another snapshot.model_id and a source.features that names its features, or make it from those of source.features",
		}
	}
	if c == nil && newest != nil && len(columns) == 0 && !slices.Equal(newest.Features, snap.Features) {
		return &pipeline.Stop{
			Err:    fmt.Errorf("the model to be published as %q has features %v, and version %d of that id on topic %s has %v", snap.ModelID, snap.Features, newest.Version, s.config.Snapshot.Topic, newest.Features),
			Remedy: "publish it with another snapshot.model_id",
		}
	}
	return nil
}
