package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/status"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// oneModel refuses a configuration with a model for each value in a command that knows only one model for all rows.
func oneModel(c *config.Config, command string) error {
	if !c.Model.By.Keyed() {
		return nil
	}
	return &exitError{exitFailed, fmt.Errorf("model.by is %s, and this release's %s has one model for all rows: set model.by to none", c.Model.By, command)}
}

// notKeyed refuses a flag that is about one model for all rows.
func notKeyed(c *config.Config, flag, why string) error {
	if !c.Model.By.Keyed() {
		return nil
	}
	return usageError("%s: model.by is %s, and %s: leave the flag out", flag, c.Model.By, why)
}

// wanted lists the topics of the configuration, with what is in them that its models must not be put next to: the model of all rows next
// to one for each value, or the reverse.
func (s *Models) wanted(ctx context.Context) ([]topics.Want, error) {
	wants := topics.Wanted(s.config)
	for i := range wants {
		if w := &wants[i]; w.Compact {
			var err error
			if w.Other, err = s.heldModel(ctx, w.Topic, s.config.Snapshot.ModelID); err != nil {
				return wants, err
			}
		}
	}
	return wants, nil
}

// heldModel returns the id of a model of the other kind if the newest record of a model id in a partition of one of our topics is of
// one, its own or that of a value; "" if not. A topic that is missing, or that this user may not read, has none: others report that.
func (s *Models) heldModel(ctx context.Context, topic, base string) (string, error) {
	parts, err := s.partitions(ctx, topic)
	var gone *missingTopic
	switch {
	case errors.As(err, &gone):
		return "", nil
	case err != nil:
		return "", err
	}
	for _, p := range parts {
		newest, err := s.newestID(ctx, p, base)
		switch {
		case errors.Is(err, kafka.TopicAuthorizationFailed):
			return "", nil
		case err != nil:
			return "", err
		case newest != "" && (newest == base) == s.keyed():
			return newest, nil
		}
	}
	return "", nil
}

// noValues refuses topics that hold models of values, in any partition, for the model of all rows. Its own checkpoint would keep these from going on.
func (s *Models) noValues(ctx context.Context, id string) error {
	for _, topic := range []string{s.config.Checkpoint.Topic, s.config.Snapshot.Topic} {
		switch held, err := s.heldModel(ctx, topic, id); {
		case err != nil:
			return err
		case held != "":
			return pipeline.ValuesThere(topic, held, id)
		}
	}
	return nil
}

// newestID returns the id of the model of a base, or of one of its values, that is the newest in a partition; "" if there is none.
func (s *Models) newestID(ctx context.Context, p source.Partition, base string) (newest string, err error) {
	_, err = s.readBackOf(p, source.LatestStable).ReadNewest(ctx, 0, func(r *source.Record) bool {
		id := source.LastHeader(r.Headers, "lca-model-id")
		if r.Value == nil || !isOrOf(id, base) {
			return false
		}
		newest = id
		return true
	})
	return newest, err
}

// ofModel reports whether an id is that of our model, or of one value's.
func (s *Models) ofModel(id string) bool { return isOrOf(id, s.config.Snapshot.ModelID) }

func isOrOf(id, base string) bool {
	of, _, _, ok := modelkey.Split(id)
	return id == base || ok && of == base
}

// finder returns what finds the model of one value; nil where there is one model for all rows.
func (s *Models) finder() status.Finder {
	if !s.config.Model.By.Keyed() {
		return nil
	}
	return s.publishedModel
}

// publishedModel reads the newest version of the model of an id, nil if there is none. It reads the partition of the id alone,
// from its end backwards until it is found.
func (s *Models) publishedModel(ctx context.Context, id string) (*pipeline.PublishedModel, error) {
	base, partition, _, ok := modelkey.Split(id)
	all, err := s.partitions(ctx, s.config.Snapshot.Topic)
	if err != nil || !ok || base != s.config.Snapshot.ModelID || int(partition) >= len(all) {
		return nil, err
	}
	var a *snapshot.Assembler
	reset := func() { a = &snapshot.Assembler{Retain: 1, Most: s.versionBytes(), Only: id} }
	reset()
	add := func(got *source.Fetched) error {
		for _, r := range got.Records {
			if of, ok := modelIDOf(r); !ok || of == id {
				_ = a.Add(r.Key, r.Value, r.Headers, time.UnixMilli(r.Timestamp)) // half a snapshot at the beginning, or one that is unusable and so not found
			}
		}
		return nil
	}
	log := s.readBackOf(source.Partition{Topic: s.config.Snapshot.Topic, ID: partition}, source.LatestStable)
	if err := log.ReadTail(ctx, reset, add, func() bool { _, ok := a.NewestVersion(id); return ok }); err != nil {
		return nil, s.cluster.Explain(err)
	}
	newest, ok := a.Newest(id)
	if !ok {
		return nil, nil
	}
	return &pipeline.PublishedModel{Snapshot: newest}, nil
}
