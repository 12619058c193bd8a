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
