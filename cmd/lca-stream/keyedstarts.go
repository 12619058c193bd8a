package main

import (
	"context"
	"sync"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// keyedStarts are the start markers of all partitions, with a model for each key: learner and transform share what was read of them.
type keyedStarts struct {
	markers func(partition int32) *pipeline.Starts

	mu    sync.Mutex
	parts map[int32]*pipeline.Starts
}

// of are the start markers of a source partition.
func (k *keyedStarts) of(partition int32) *pipeline.Starts {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parts == nil {
		k.parts = map[int32]*pipeline.Starts{}
	}
	if k.parts[partition] == nil {
		k.parts[partition] = k.markers(partition)
	}
	return k.parts[partition]
}

// startMarkersOf are the start markers of a source partition with a model for each key.
func (s *Positions) startMarkersOf(partition int32) *pipeline.Starts {
	p := source.Partition{Topic: s.config.Checkpoint.Topic, ID: partition}
	return &pipeline.Starts{
		Topic: p.Topic, Partition: partition, Log: s.log,
		Open:   func(ctx context.Context) (pipeline.TopicReader, error) { return s.openPartition(ctx, p, 0) },
		OpenAt: func(ctx context.Context, at int64) (pipeline.TopicReader, error) { return s.openPartition(ctx, p, at) },
		End:    func(ctx context.Context) (int64, error) { return s.endOf(ctx, p, source.Latest) },
	}
}

// keyedTransformPositions decides where the transforms read a partition from, with a model for each key.
func (s *Positions) keyedTransformPositions(partition int32) *pipeline.Positions {
	p := s.positions(s.config.Source.Group, "")
	p.Starts, p.Home = s.keyedStarts.of(partition), s.keyedStarts.of(0)
	return p
}
