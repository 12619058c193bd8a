package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// togetherBytes is about how much a transaction with the models of a replay holds, and so how much waits for it.
const togetherBytes = 8 << 20

// wait keeps a model until enough of its partition are made to be published.
func (k *keyedReplay) wait(ctx context.Context, partition int32, s *snapshot.Snapshot) error {
	if n := len(k.waiting); n > 0 {
		if _, before, _, _ := modelkey.Split(k.waiting[0].snapshot.ModelID); before != partition {
			if err := k.publish(ctx); err != nil {
				return err
			}
		}
	}
	k.waiting = append(k.waiting, &waitingModel{s, len(k.results) - 1})
	d := s.Model.Dim
	if k.bytes += 4*len(s.Model.Neighbours) + 24*d*d + 4<<10; k.bytes >= togetherBytes {
		return k.publish(ctx)
	}
	return nil
}

// publish publishes the models that wait. What cannot take the place of a model that is there is noted.
func (k *keyedReplay) publish(ctx context.Context) error {
	if len(k.waiting) == 0 {
		return nil
	}
	all := make([]*snapshot.Snapshot, len(k.waiting))
	for i, w := range k.waiting {
		all[i] = w.snapshot
	}
	faults, err := k.system.publishModels(ctx, all)
	if err != nil {
		return err
	}
	for i, w := range k.waiting {
		result := &k.results[w.result]
		if result.ModelVersion = w.snapshot.Version; faults[i] != nil {
			result.fail(faults[i])
			continue
		}
		if result.Fingerprint, err = snapshot.Fingerprint(w.snapshot); err != nil {
			return err
		}
	}
	k.waiting, k.bytes = nil, 0
	return nil
}

// keyedTopics refuses snapshot and checkpoint topics that are not laid out for models by value.
func (s *Models) keyedTopics(ctx context.Context) error {
	wants, err := s.wanted(ctx)
	if err != nil {
		return s.cluster.Explain(err)
	}
	names := []string{s.config.Snapshot.Topic, s.config.Checkpoint.Topic}
	for _, name := range names {
		if _, err := s.partitions(ctx, name); err != nil {
			return missing(s.config, name, err)
		}
	}
	return s.checkTopics(ctx, topics.Of(wants, names))
}

// publishModels publishes models of one partition as publish does that of all rows: in the place of the partition's learner, for one
// transaction, with checkpoints from which it goes on. Those of another pipeline are refused. Models that are there already are left alone, and if all are, so is the learner.
// faults are why a model was not published; nil where it was.
func (s *Publisher) publishModels(ctx context.Context, all []*snapshot.Snapshot) (faults []error, err error) {
	if err := s.ownsModels(ctx); err != nil {
		return nil, err
	}
	_, partition, _, _ := modelkey.Split(all[0].ModelID)
	msgs, faults, err := s.placedModels(ctx, partition, all, source.LatestStable)
	if err != nil || len(msgs) == 0 {
		return faults, s.cluster.Explain(err)
	}
	k, err := s.openKeyedSink(ctx, partition)
	if err != nil {
		return nil, s.cluster.Explain(err)
	}
	defer func() { _ = k.Close() }()
	msgs, faults, err = s.placedModels(ctx, partition, all, source.Latest) // others may be newest by now; from here on they stay
	if err != nil || len(msgs) == 0 {
		return faults, s.cluster.Explain(err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(s.config.ShutdownTimeout, time.Second))
	defer cancel()
	msgs = append(msgs, s.keyedStates(partition, source.Latest).CompareAgain()) // others may still have lost their checkpoints
	return faults, k.Put(ctx, msgs, source.Claim{})
}

// placedModels gives models their places in the succession of versions, as placed does, and returns the messages to put: none of a model
// that is there already.
func (s *Publisher) placedModels(ctx context.Context, partition int32, all []*snapshot.Snapshot, to source.At) (msgs []sink.Message, faults []error, err error) {
	ids := make(map[string]bool, len(all))
	for _, snap := range all {
		ids[snap.ModelID] = true
	}
	a := &snapshot.Assembler{Retain: 1, Most: s.versionBytes()}
	if err := s.assembleTo(ctx, source.Partition{Topic: s.config.Snapshot.Topic, ID: partition}, to, a, func(id string) bool { return ids[id] }); err != nil {
		return nil, nil, err
	}
	states, stage, err := s.statesOf(ctx, partition, to)
	if err != nil {
		return nil, nil, err
	}
	faults = make([]error, len(all))
	for i, snap := range all {
		placed, model := *snap, *snap.Model
		placed.Model = &model
		own, err := s.placedModel(ctx, &placed, a, states, stage)
		var stop *pipeline.Stop
		switch {
		case errors.As(err, &stop):
			faults[i] = err
			continue
		case err != nil:
			return nil, nil, err
		}
		if msgs = append(msgs, own...); to == source.Latest || len(own) == 0 {
			*snap = placed
		}
	}
	return msgs, faults, nil
}

// placedModel gives one model its place.
func (s *Publisher) placedModel(ctx context.Context, snap *snapshot.Snapshot, a *snapshot.Assembler, states *pipeline.KeyedStates, stage *pipeline.Learn) ([]sink.Message, error) {
	_, _, value, _ := modelkey.Split(snap.ModelID)
	if topic := snap.LearntFrom(); topic != s.config.Source.Topic {
		snap.Offsets = nil
	}
	snap.Group, snap.By = s.config.Source.Group, s.config.Model.By.String()
	newest, err := newestOf(a, snap.ModelID)
	if err != nil {
		return nil, err
	}
	checkpoint, err := states.Load(ctx, string(value))
	damaged := errors.Is(err, pipeline.ErrDamaged)
	if err != nil && !damaged {
		return nil, err
	}
	if err := s.fits(checkpoint, newest, snap); err != nil {
		return nil, err
	}
	if damaged {
		checkpoint = states.Outline(string(value), snap.Features)
	}
	slots := a.Slots(snap.ModelID)
	if newest != nil {
		same, err := takePlaceOf(snap, newest)
		switch {
		case err != nil:
			return nil, err
		case same && !damaged && checkpoint != nil && checkpoint.Published >= snap.Version:
			return nil, nil
		case same:
			return stage.ReplaceKeyed(states, checkpoint, snap, slots)
		}
	}
	succeed(snap, newest, checkpoint)
	if last := states.Last(string(value)); snap.Version <= last || newest == nil && checkpoint == nil {
		snap.Version += last
		snap.Model.Info.Rows = snap.Version
	}
	msgs, slots, err := snapshot.Messages(snap, s.config.Snapshot.Topic, s.config.Snapshot.Keep, slots)
	if err != nil {
		return nil, err
	}
	for i := range msgs {
		msgs[i].Partition = states.Partition
	}
	replaced, err := stage.ReplaceKeyed(states, checkpoint, snap, slots)
	return slices.Concat(msgs, replaced), err
}

// statesOf returns the checkpoints of a partition's models as they are now, and what writes others.
func (s *Publisher) statesOf(ctx context.Context, partition int32, to source.At) (*pipeline.KeyedStates, *pipeline.Learn, error) {
	c := s.config
	learner, err := c.Learner(c.LCA.Rank + 1)
	if err != nil {
		return nil, nil, err
	}
	states := s.keyedStates(partition, to)
	return states, &pipeline.Learn{LearnConfig: pipeline.LearnConfig{ModelID: c.Snapshot.ModelID, Learner: learner, Log: s.log}}, states.Read(ctx)
}
