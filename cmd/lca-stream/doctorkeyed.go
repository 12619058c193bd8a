package main

import (
	"context"
	"errors"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// modelsByValue reports the newest model of a value, and whether the models are of source.features.
func (d *doctor) modelsByValue(ctx context.Context) {
	if !d.learnsByValue(ctx) {
		return
	}
	var newest *snapshot.Snapshot
	err := d.system.newestByValue(ctx, func(s *snapshot.Snapshot) error {
		if newest == nil || s.Time.After(newest.Time) {
			newest = s
		}
		return nil
	})
	switch {
	case err != nil:
		d.fault("models", "the user needs READ on the snapshot topic", "%v", err)
		return
	case newest == nil:
		d.warn("models", "start `lca-stream run`, or `learn` where transforms run apart, or correct snapshot.model_id", "there is no model of any value of model.by yet")
		return
	}
	d.ok("models", "%s is the newest: version %d, %s old, %d features; `lca-stream snapshot list` has the others", newest.ModelID, newest.Version, age(time.Since(newest.Time)), newest.Model.Dim)
	err = d.system.keyedFits(ctx)
	var stop *pipeline.Stop
	switch {
	case errors.As(err, &stop):
		d.fault("models", stop.Remedy, "%v", stop.Err)
	case err != nil:
		d.fault("models", "the user needs READ on the snapshot topic", "%v", err)
	}
}

// learnsByValue reports whether a learner of this configuration would begin: the models may be another pipeline's, or of settings with which it
// could not go on. It returns false where the models are not ours, so that nothing more is to be said of them.
func (d *doctor) learnsByValue(ctx context.Context) bool {
	s := d.system
	owned := s.ownsModels(ctx)
	if owned == nil {
		owned = s.keyedClaims().Mine(ctx)
	}
	err := owned
	if err == nil {
		var stage *pipeline.Learn
		if stage, err = s.learnStage(ctx, nil); err == nil {
			err = s.keyedGoesOn(ctx, stage.LearnConfig, (*pipeline.KeyedLearn).Foretell)
		}
	}
	var stop *pipeline.Stop
	var gone *missingTopic
	switch {
	case errors.As(err, &gone): // topics has reported it
	case errors.As(err, &stop):
		d.fault("learner", stop.Remedy, "one of this configuration (run, learn) could not begin or go on: %v", stop.Err)
	case err != nil:
		d.fault("learner", "the user needs READ on the snapshot and checkpoint topics", "%v", s.cluster.Explain(err))
	}
	return !errors.As(owned, &stop)
}
