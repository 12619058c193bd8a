package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// publish publishes a snapshot that was not made by the live learner. A version only grows for a model id: if there
// is a newer one, this snapshot's rows count on from there. If the newest one is the same model, nothing is done and
// false returned: publishing twice is the same as once, and a running learner is not disturbed. Neither is it if the
// snapshot is refused, as one is of a model that another pipeline publishes.
//
// It takes the learner's place for one transaction. A running learner is fenced, and with the checkpoint in the same
// transaction the next learner goes on from the snapshot. Otherwise the learner's own model would come back as soon
// as its versions passed this one.
//
// An interrupt does not end the transaction, because its outcome would be unknown.
func (s *Publisher) publish(ctx context.Context, snap *snapshot.Snapshot) (bool, error) {
	if topic := snap.LearntFrom(); topic != s.config.Source.Topic {
		snap.Offsets = nil // another topic was chosen on purpose: its offsets mean nothing here
	}
	snap.Group = s.config.Source.Group
	a, err := s.snapshots(ctx, source.LatestStable)
	if err != nil {
		return false, s.cluster.Explain(err)
	}
	newest, err := newestOf(a, snap.ModelID)
	if err == nil {
		err = pipeline.Belongs(newest, s.config.Snapshot.Topic, s.ours())
	}
	if err != nil {
		return false, err
	}
	if done, err := s.inPlace(ctx, newest, snap); done || err != nil {
		return false, s.cluster.Explain(err)
	}
	if err := s.tried(ctx, newest, snap); err != nil {
		return false, s.cluster.Explain(err)
	}
	id, former := learnID(s.config.Source, snap.ModelID)
	k, err := s.openSink(ctx, id, former)
	if err != nil {
		return false, s.cluster.Explain(err)
	}
	defer func() { _ = k.Close() }()
	msgs, err := s.placed(ctx, snap) // the newest may be another one by now; from here on it stays
	if err != nil || len(msgs) == 0 {
		return false, s.cluster.Explain(err)
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(s.config.ShutdownTimeout, time.Second))
	defer cancel()
	return true, k.Put(ctx, msgs, source.Claim{})
}

// ownsModel refuses to publish a version of a model whose newest version is another pipeline's: that one's learner would end, and be refused at
// each start.
func (s *Models) ownsModel(ctx context.Context) error {
	newest, err := s.newestVersion(ctx)
	if err != nil {
		return s.mayRead(s.config.Snapshot.Topic, err)
	}
	return pipeline.Belongs(newest, s.config.Snapshot.Topic, s.ours())
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
	_, checkpoint, err := s.checkpointOf(ctx, snap.ModelID, (*pipeline.Checkpoints).Load)
	return err == nil && (checkpoint == nil || checkpoint.Published >= snap.Version), err
}

// placed gives snap its place in the succession of versions, and returns the messages to put: none if it is there
// already.
func (s *Publisher) placed(ctx context.Context, snap *snapshot.Snapshot) ([]sink.Message, error) {
	c := s.config
	stage, checkpoint, err := s.checkpointOf(ctx, snap.ModelID, (*pipeline.Checkpoints).Load)
	if err != nil {
		return nil, err
	}
	a, err := s.snapshots(ctx, source.Latest)
	if err != nil {
		return nil, err
	}
	newest, ok := a.Newest(snap.ModelID)
	if err := s.fits(checkpoint, newest, snap); err != nil {
		return nil, err
	}
	if ok {
		same, err := takePlaceOf(snap, newest)
		switch {
		case err != nil:
			return nil, err
		case same && (checkpoint == nil || checkpoint.Published >= snap.Version):
			return nil, nil
		case same:
			return stage.Replace(checkpoint, snap, a.Slots(snap.ModelID))
		}
	}
	succeed(snap, newest, checkpoint)
	msgs, slots, err := snapshot.Messages(snap, c.Snapshot.Topic, c.Snapshot.Keep, a.Slots(snap.ModelID))
	if err != nil || checkpoint == nil {
		return msgs, err
	}
	replaced, err := stage.Replace(checkpoint, snap, slots)
	return append(msgs, replaced...), err
}

// succeed gives snap its place after the newest snapshot and the learner's checkpoint; either may be nil.
func succeed(snap, newest *snapshot.Snapshot, checkpoint *pipeline.Checkpoint) {
	if newest != nil {
		snap.Number, snap.Parent, snap.Version = newest.Number+1, newest.Version, newest.Version+snap.Version
	}
	if checkpoint != nil && checkpoint.Published > snap.Parent { // the topic has lost what the learner remembers
		snap.Number, snap.Parent, snap.Version = max(snap.Number, checkpoint.Snapshots), checkpoint.Published, checkpoint.Published+snap.Version
	}
	snap.Model.Info.Rows = snap.Version
}

// checkpointOf returns the checkpoint of the model's learner, nil if there is none or no topic for it. read is Peek
// if no open transaction is to be waited for, and Load once the learner is fenced.
func (s *Models) checkpointOf(ctx context.Context, modelID string, read func(*pipeline.Checkpoints, context.Context) (*pipeline.Checkpoint, error)) (*pipeline.Learn, *pipeline.Checkpoint, error) {
	learner, err := s.config.Learner(s.config.LCA.Rank + 1)
	if err != nil {
		return nil, nil, err
	}
	stage := &pipeline.Learn{LearnConfig: pipeline.LearnConfig{
		ModelID: modelID, Learner: learner, Checkpoints: s.checkpoints(), Log: s.log,
	}}
	if _, err := s.partitions(ctx, s.config.Checkpoint.Topic); errors.Is(err, kafka.UnknownTopicOrPartition) {
		return stage, nil, nil // no learner has worked here yet
	}
	c, err := read(stage.Checkpoints, ctx)
	return stage, c, err
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
