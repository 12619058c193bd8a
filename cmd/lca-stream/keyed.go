package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/source"
)

// oneModel refuses a configuration with a model for each value in a command that knows only one model for all rows.
func oneModel(c *config.Config, command string) error {
	if !c.Model.By.Keyed() {
		return nil
	}
	return &exitError{exitFailed, fmt.Errorf("model.by is %s, and this release's %s has one model for all rows: set model.by to none", c.Model.By, command)}
}

// wanted lists the topics of the configuration, with what is in them that a model for each value must not be put next to.
func (s *system) wanted(ctx context.Context) ([]topics.Want, error) {
	wants := topics.Wanted(s.config)
	if !s.config.Model.By.Keyed() {
		return wants, nil
	}
	for i := range wants {
		if w := &wants[i]; w.Compact {
			held, err := s.holdsModel(ctx, w.Topic, s.config.Snapshot.ModelID)
			if err != nil {
				return wants, err
			}
			if held {
				w.Unkeyed = s.config.Snapshot.ModelID
			}
		}
	}
	return wants, nil
}

// errHeld ends a search that has found what it looks for.
var errHeld = errors.New("the topic holds the model")

// holdsModel reports whether the first partition of one of our topics has a record of a model. A topic that is missing, or
// that this user may not read, has none: others report that.
func (s *system) holdsModel(ctx context.Context, topic, id string) (bool, error) {
	_, err := s.partitions(ctx, topic)
	var gone *missingTopic
	switch {
	case errors.As(err, &gone):
		return false, nil
	case err != nil:
		return false, err
	}
	err = s.readBack(topic, source.LatestStable).Read(ctx, func(got *source.Fetched) error {
		for _, r := range got.Records {
			for _, h := range r.Headers {
				if h.Key == "lca-model-id" && string(h.Value) == id && r.Value != nil {
					return errHeld
				}
			}
		}
		return nil
	})
	if errors.Is(err, errHeld) {
		return true, nil
	}
	return false, err
}
