package main

import (
	"context"
	"errors"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// keyed reports whether there is a model for each value.
func (s *Topics) keyed() bool { return s.config.Model.By.Keyed() }

// positionsOf are those of one partition, of the learner of a model id, or of a transform where model is "". With a model for each value its start
// markers are in the same partition of the checkpoint topic.
func (s *Positions) positionsOf(p source.Partition, group, model string) *pipeline.Positions {
	switch {
	case !s.keyed():
		return s.positions(group, model)
	case model != "":
		return s.keyedPositions(p.ID)
	}
	return s.keyedTransformPositions(p.ID)
}

// known reads what is left of a group. With a model for each value the start markers are in as many partitions as the source has.
func (s *Positions) known(ctx context.Context, group, model string) (pipeline.Known, error) {
	look := func(p source.Partition) (pipeline.Known, error) {
		at := s.positionsOf(p, group, model)
		at.Places = places{cluster: s.cluster, looks: true}
		return at.Known(ctx)
	}
	if !s.keyed() {
		return look(source.Partition{})
	}
	ours, err := s.partitions(ctx, s.config.Checkpoint.Topic)
	if err != nil {
		return pipeline.Known{}, err
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
		var one pipeline.Known
		if one, err = look(p); err == nil {
			all.Take(&one, p)
		}
	}
	return all, err
}

// committedOf returns where learners of models by key go on, as far as that is known: at what they have committed, or at their start markers
// where that is gone, or another learner has committed since.
func committedOf(k *pipeline.Known) source.Offsets {
	next := source.Offsets{}
	for p, c := range k.Committed {
		if !k.Others[p] && c.Next >= 0 {
			next[p] = c.Next
		} else if m, begun := k.Markers[p]; begun {
			next[p] = m.Offset
		}
	}
	return next
}

// learntUpTo returns what a reset moves away from: -1 where the models have not begun, or where it is not known.
func (r *reset) learntUpTo(ctx context.Context) (func(source.Partition) int64, error) {
	k, err := r.known(ctx, learnGroup(r.config), r.config.Snapshot.ModelID)
	next := committedOf(&k)
	return func(p source.Partition) int64 {
		if at, ok := next[p]; ok {
			return at
		}
		return -1
	}, err
}

// learnKeyed moves the models of each partition with its committed offset, in one transaction, in the place of its learner.
func (r *reset) learnKeyed(ctx context.Context, to source.Offsets) error {
	before, err := r.learntUpTo(ctx)
	if err != nil {
		return err
	}
	if err := r.tellOthers(ctx, r.keyedPositions(0), stageLearn, to); err != nil {
		return err
	}
	for _, p := range to.Partitions() {
		k, err := r.openKeyedSink(ctx, p.ID)
		if err != nil {
			return err
		}
		move := r.keyedStates(p.ID, source.Latest).Move(to[p])
		if err := errors.Join(r.keyedPositions(p.ID).Reset(ctx, k, source.Offsets{p: to[p]}, []sink.Message{move}), k.Close()); err != nil {
			return err
		}
		r.tell("learn", "learnt", p, before(p), to[p])
	}
	return nil
}

// foretellKeyed says what learnKeyed would do.
func (r *reset) foretellKeyed(ctx context.Context, to source.Offsets) error {
	before, err := r.learntUpTo(ctx)
	if err != nil {
		return err
	}
	if err := r.tellOthers(ctx, r.keyedPositions(0), stageLearn, to); err != nil {
		return err
	}
	for _, p := range to.Partitions() {
		r.tell("learn", "learnt", p, before(p), to[p])
	}
	return nil
}
