package main

import (
	"context"
	"errors"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// snapshotFetch is how many bytes of snapshots are read at a time: every partition may read some at the same time.
const snapshotFetch = 1 << 20

// A batch of a transform with a model for each message, see transforms.batches. The larger it is, the more of its messages are of the same model, which is
// then fetched once for all of them. More bytes would take more than the 256 MiB that a process may have in addition to model.memory.
const (
	keyedTransformGather = 7 << 19
	keyedTransformParts  = 20
)

// transformKeyed whitens with a model for each value of model.by until ctx ends.
func (s *whitening) transformKeyed(ctx context.Context) error {
	shared, err := s.transformConfig(ctx)
	if err != nil {
		return err
	}
	if !s.learns { // the learner of this process has asked
		if err := s.keyedFits(ctx); err != nil {
			return stopped(ctx, err)
		}
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	models := s.keyedModels(&shared, fail)
	defer models.Keep(nil)
	err = s.whiten(ctx, shared, models)
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause // nil, or why the snapshot topic cannot be followed
	}
	return err
}

func (s *whitening) keyedModels(shared *pipeline.TransformConfig, fail func(error)) *pipeline.KeyedModels {
	c := s.config
	return &pipeline.KeyedModels{
		Open: func(ctx context.Context, partition int32, from int64) (pipeline.ModelLog, error) {
			return s.openPartitionFor(ctx, source.Partition{Topic: c.Snapshot.Topic, ID: partition}, from, snapshotFetch)
		},
		End: func(ctx context.Context, partition int32) (int64, error) {
			return s.endOf(ctx, source.Partition{Topic: c.Snapshot.Topic, ID: partition}, source.LatestStable)
		},
		Failed: fail,
		Topic:  c.Snapshot.Topic, ModelID: c.Snapshot.ModelID, Source: c.Source.Topic, Group: c.Source.Group, Features: c.Source.Features,
		By: c.Model.By, Memory: s.modelMemory(),
		Coordinates: shared.Coordinates, Components: shared.Components,
		Learns:   s.learns,
		Explains: shared.Output.Why > 0 || shared.Output.Imputed,
		AlarmsTo: shared.Alarms.To, Stats: s.stats, Log: s.log.With("stage", "transform"),
	}
}

// modelMemory is the most that the models of a stage take: model.memory, or half of memory.limit if that is less. Garbage beyond
// garbageOfModels is counted in, as are the buffers around it, so that a process stays below model.memory and 256 MiB.
func (s *Process) modelMemory() int {
	const garbageOfModels, buffers = 256 << 20, 64 << 20
	most := min(s.config.Model.Memory, int(s.limit/2))
	return min(most, (most+garbageOfModels)*100/(100+garbageLeast)-buffers)
}

// stage is a partition's stage.
func (o *transforms) stage(t pipeline.Transform) pipeline.Stage {
	if o.models == nil {
		return &t
	}
	return &pipeline.KeyedTransform{Transform: t, Models: o.models}
}

// catchUp reads the newest models of a partition.
func (o *transforms) catchUp(ctx context.Context, p source.Partition) error {
	if o.models == nil {
		return o.shared.Follow.CatchUp(ctx)
	}
	return o.models.CatchUp(ctx, p.ID)
}

// positionsOf are those of all partitions, or with keys those of one: its start markers are in the same partition of the checkpoint topic.
func (o *transforms) positionsOf(p source.Partition) *pipeline.Positions {
	if o.models == nil {
		return o.positions
	}
	at := o.keyedTransformPositions(p.ID)
	at.Written = o.positions.Written
	return at
}

// keptModels are members that tell which partitions they own: the models of others are forgotten, and those of partitions that stay are not
// read again.
type keptModels struct {
	pipeline.Members
	models *pipeline.KeyedModels
}

// Next waits for the next generation.
func (m *keptModels) Next(ctx context.Context) (pipeline.Ownership, error) {
	own, err := m.Members.Next(ctx)
	if err != nil {
		return nil, err
	}
	var ids []int32
	for _, p := range own.Owned() {
		ids = append(ids, p.ID)
	}
	m.models.Keep(ids)
	return own, nil
}
