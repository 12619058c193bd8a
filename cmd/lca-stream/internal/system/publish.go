package system

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// Publisher publishes models that were not made by the live learner.
type Publisher struct {
	*Models
}

// Publish publishes a snapshot that was not made by the live learner. A version only grows for a model id: if there
// is a newer one, this snapshot's rows count on from there. If the newest one is the same model, nothing is done and
// false returned: publishing twice is the same as once, and a running learner is not disturbed. Neither is it if the
// snapshot is refused, as one is of a model that another pipeline publishes.
//
// It takes the learner's place for one transaction. A running learner is fenced, and with the checkpoint in the same
// transaction the next learner goes on from the snapshot. Otherwise the learner's own model would come back as soon
// as its versions passed this one.
//
// An interrupt does not end the transaction, because its outcome would be unknown.
func (s *Publisher) Publish(ctx context.Context, snap *snapshot.Snapshot) (bool, error) {
	if topic := snap.LearntFrom(); topic != s.Config.Source.Topic {
		snap.Offsets = nil // another topic was chosen on purpose: its offsets mean nothing here
	}
	snap.Group = s.Config.Source.Group
	a, err := s.Snapshots(ctx, source.LatestStable)
	if err != nil {
		return false, s.Cluster.Explain(err)
	}
	newest, err := newestOf(a, snap.ModelID)
	if err == nil {
		err = learn.Belongs(newest, s.Config.Snapshot.Topic, s.Ours())
	}
	if err != nil {
		return false, err
	}
	if done, err := s.inPlace(ctx, newest, snap); done || err != nil {
		return false, s.Cluster.Explain(err)
	}
	if err := s.tried(ctx, newest, snap); err != nil {
		return false, s.Cluster.Explain(err)
	}
	id, former := LearnID(s.Config.Source, snap.ModelID)
	k, err := s.OpenSink(ctx, id, former)
	if err != nil {
		return false, s.Cluster.Explain(err)
	}
	defer func() { _ = k.Close() }()
	msgs, err := s.placed(ctx, snap) // the newest may be another one by now; from here on it stays
	if err != nil || len(msgs) == 0 {
		return false, s.Cluster.Explain(err)
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ShutdownTimeout)
	defer cancel()
	return true, k.Put(ctx, msgs, source.Claim{})
}

// inPlace reports whether snap is the newest snapshot on the topic and the learner's checkpoint is not older. newest
// may be nil. No running learner is disturbed.
func (s *Publisher) inPlace(ctx context.Context, newest, snap *snapshot.Snapshot) (bool, error) {
	if newest == nil {
		return false, nil
	}
	same, err := takePlaceOf(snap, newest)
	if !same || err != nil {
		return false, err
	}
	_, saved, err := s.CheckpointOf(ctx, snap.ModelID, (*checkpoint.Checkpoints).Load)
	return err == nil && (saved == nil || saved.Published >= snap.Version), err
}

// placed gives snap its place in the succession of versions, and returns the messages to put: none if it is there
// already.
func (s *Publisher) placed(ctx context.Context, snap *snapshot.Snapshot) ([]sink.Message, error) {
	c := s.Config
	stage, saved, err := s.CheckpointOf(ctx, snap.ModelID, (*checkpoint.Checkpoints).Load)
	if err != nil {
		return nil, err
	}
	a, err := s.Snapshots(ctx, source.Latest)
	if err != nil {
		return nil, err
	}
	newest, ok := a.Newest(snap.ModelID)
	if err := s.fits(saved, newest, snap); err != nil {
		return nil, err
	}
	if ok {
		same, err := takePlaceOf(snap, newest)
		switch {
		case err != nil:
			return nil, err
		case same && (saved == nil || saved.Published >= snap.Version):
			return nil, nil
		case same:
			return stage.Replace(saved, snap, a.Slots(snap.ModelID))
		}
	}
	succeed(snap, newest, saved)
	msgs, slots, err := snapshot.Messages(snap, c.Snapshot.Topic, versionsKept(c), a.Slots(snap.ModelID))
	if err != nil || saved == nil {
		return msgs, err
	}
	replaced, err := stage.Replace(saved, snap, slots)
	return append(msgs, replaced...), err
}

// succeed gives snap its place after the newest snapshot and the learner's checkpoint; either may be nil.
func succeed(snap, newest *snapshot.Snapshot, saved *checkpoint.Checkpoint) {
	if newest != nil {
		snap.Number, snap.Parent, snap.Version = newest.Number+1, newest.Version, newest.Version+snap.Version
	}
	if saved != nil && saved.Published > snap.Parent { // the topic has lost what the learner remembers
		snap.Number, snap.Parent, snap.Version = max(snap.Number, saved.Snapshots), saved.Published, saved.Published+snap.Version
	}
	snap.Model.Info.Rows = snap.Version
}

// takePlaceOf gives snap the place of the published snapshot if both are the same except for their place in the
// succession of versions.
func takePlaceOf(snap, published *snapshot.Snapshot) (bool, error) {
	placed, model := *snap, *snap.Model
	placed.Model, placed.Number, placed.Parent, placed.Version = &model, published.Number, published.Parent, published.Version
	model.Info.Rows = published.Model.Info.Rows
	one, err := snapshot.Fingerprint(&placed)
	if err != nil {
		return false, err
	}
	other, err := snapshot.Fingerprint(published)
	if err != nil || one != other || !slices.Equal(model.Neighbours, published.Model.Neighbours) {
		return false, err
	}
	*snap = placed
	return true, nil
}

// tried refuses a snapshot that the learner could not go on from, before that learner is fenced and not after. It
// does not wait for open transactions.
func (s *Publisher) tried(ctx context.Context, newest, snap *snapshot.Snapshot) error {
	if err := s.NoValues(ctx, snap.ModelID); err != nil {
		return err
	}
	stage, c, err := s.CheckpointOf(ctx, snap.ModelID, (*checkpoint.Checkpoints).Peek)
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
func (s *Publisher) fits(c *checkpoint.Checkpoint, newest, snap *snapshot.Snapshot) error {
	columns := s.Config.Source.Features
	if !minibatch.Chosen(columns, snap.Features) {
		return &reject.Stop{
			Err:    fmt.Errorf("the model to be published as %q %s", snap.ModelID, checkpoint.OtherFeatures(snap.Features, "source.features says", columns)),
			Remedy: "publish it with another snapshot.model_id and a source.features that names its features, or make it from those of source.features",
		}
	}
	if c == nil && newest != nil && len(columns) == 0 && !slices.Equal(newest.Features, snap.Features) {
		return &reject.Stop{
			Err: fmt.Errorf("the model to be published as %q %s", snap.ModelID, checkpoint.OtherFeatures(snap.Features,
				fmt.Sprintf("version %d of that id on topic %s has", newest.Version, s.Config.Snapshot.Topic), newest.Features)),
			Remedy: "publish it with another snapshot.model_id",
		}
	}
	return nil
}

// FitsAtStart refuses a replay whose snapshot would be refused when it is published, because of its features, before a
// row is read. Where the features follow from the rows, it returns those that they must be.
func (s *Publisher) FitsAtStart(ctx context.Context) (must []string, err error) {
	id, columns := s.Config.Snapshot.ModelID, s.Config.Source.Features
	_, c, err := s.CheckpointOf(ctx, id, (*checkpoint.Checkpoints).Peek)
	if err != nil {
		return nil, s.Cluster.Explain(err)
	}
	switch {
	case c != nil && len(columns) > 0 && !minibatch.Chosen(columns, c.Features):
		return nil, Misfit(id, c.Features, "source.features now says", columns)
	case len(columns) > 0:
		return nil, nil
	case c != nil:
		return c.Features, nil
	}
	newest, err := s.newestVersion(ctx)
	if err != nil || newest == nil {
		return nil, s.Cluster.Explain(err)
	}
	return newest.Features, nil
}

// Misfit is the error about rows of other features than those of the model that a replay would replace.
func Misfit(id string, learnt []string, asks string, now []string) error {
	return &reject.Stop{
		Err:    fmt.Errorf("model %q %s: a snapshot of these cannot take its place", id, checkpoint.OtherFeatures(learnt, asks, now)),
		Remedy: "give the snapshot an id of its own with --model-id",
	}
}

// PublishModels publishes models of one partition as publish does that of all rows: in the place of the partition's learner, for one
// transaction, with checkpoints from which it goes on. Those of another pipeline are refused. Models that are there already are left alone, and if all are, so is the learner.
// faults are why a model was not published; nil where it was.
func (s *Publisher) PublishModels(ctx context.Context, all []*snapshot.Snapshot) (faults []error, err error) {
	if err := s.OwnsModels(ctx); err != nil {
		return nil, err
	}
	_, partition, _, _ := modelkey.Split(all[0].ModelID)
	msgs, faults, err := s.placedModels(ctx, partition, all, source.LatestStable)
	if err != nil || len(msgs) == 0 {
		return faults, s.Cluster.Explain(err)
	}
	k, err := s.OpenKeyedSink(ctx, partition)
	if err != nil {
		return nil, s.Cluster.Explain(err)
	}
	defer func() { _ = k.Close() }()
	msgs, faults, err = s.placedModels(ctx, partition, all, source.Latest) // others may be newest by now; from here on they stay
	if err != nil || len(msgs) == 0 {
		return faults, s.Cluster.Explain(err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ShutdownTimeout)
	defer cancel()
	msgs = append(msgs, s.KeyedStates(partition, source.Latest).CompareAgain()) // others may still have lost their checkpoints
	return faults, k.Put(ctx, msgs, source.Claim{})
}

// placedModels gives models their places in the succession of versions, as placed does, and returns the messages to put: none of a model
// that is there already.
func (s *Publisher) placedModels(ctx context.Context, partition int32, all []*snapshot.Snapshot, to source.At) (msgs []sink.Message, faults []error, err error) {
	ids := make(map[string]bool, len(all))
	for _, snap := range all {
		ids[snap.ModelID] = true
	}
	a := &snapshot.Assembler{Retain: 1, Most: s.VersionBytes()}
	if err := s.assemble(ctx, source.Partition{Topic: s.Config.Snapshot.Topic, ID: partition}, to, a, func(id string) bool { return ids[id] }); err != nil {
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
		var stop *reject.Stop
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
func (s *Publisher) placedModel(ctx context.Context, snap *snapshot.Snapshot, a *snapshot.Assembler, states *learn.KeyedStates, stage *learn.Learn) ([]sink.Message, error) {
	_, _, value, _ := modelkey.Split(snap.ModelID)
	if topic := snap.LearntFrom(); topic != s.Config.Source.Topic {
		snap.Offsets = nil
	}
	snap.Group, snap.By = s.Config.Source.Group, s.Config.Model.By.String()
	newest, err := newestOf(a, snap.ModelID)
	if err != nil {
		return nil, err
	}
	saved, err := states.Load(ctx, string(value))
	damaged := errors.Is(err, learn.ErrDamaged)
	if err != nil && !damaged {
		return nil, err
	}
	if err := s.fits(saved, newest, snap); err != nil {
		return nil, err
	}
	if damaged {
		saved = states.Outline(string(value), snap.Features)
	}
	slots := a.Slots(snap.ModelID)
	if newest != nil {
		same, err := takePlaceOf(snap, newest)
		switch {
		case err != nil:
			return nil, err
		case same && !damaged && saved != nil && saved.Published >= snap.Version:
			return nil, nil
		case same:
			return stage.ReplaceKeyed(states, saved, snap, slots)
		}
	}
	succeed(snap, newest, saved)
	if last := states.Last(string(value)); snap.Version <= last || newest == nil && saved == nil {
		snap.Version += last
		snap.Model.Info.Rows = snap.Version
	}
	msgs, slots, err := snapshot.Messages(snap, s.Config.Snapshot.Topic, versionsKept(s.Config), slots)
	if err != nil {
		return nil, err
	}
	for i := range msgs {
		msgs[i].Partition = states.Partition
	}
	replaced, err := stage.ReplaceKeyed(states, saved, snap, slots)
	return slices.Concat(msgs, replaced), err
}

// statesOf returns the checkpoints of a partition's models as they are now, and what writes others.
func (s *Publisher) statesOf(ctx context.Context, partition int32, to source.At) (*learn.KeyedStates, *learn.Learn, error) {
	c := s.Config
	learner, err := c.Learner(c.LCA.Metric.Rank() + 1)
	if err != nil {
		return nil, nil, err
	}
	states := s.KeyedStates(partition, to)
	return states, &learn.Learn{LearnConfig: learn.LearnConfig{ModelID: c.Snapshot.ModelID, Learner: learner, Log: s.Log}}, states.Read(ctx)
}
