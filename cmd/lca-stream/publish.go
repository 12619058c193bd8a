package main

import (
	"context"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// publish puts a snapshot that was not made by the live learner onto the topic, in one transaction.
// role keeps its transactional id apart from the learner's, which goes on undisturbed. A version only
// grows for a model id: if there is a newer one, what it has learnt counts on. If the newest is the
// same model, there is nothing to put: publishing twice is the same as once.
//
// An interrupt does not reach into the transaction: its outcome would be unknown.
func (s *system) publish(ctx context.Context, role string, snap *snapshot.Snapshot) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(s.config.ShutdownTimeout, time.Second))
	defer cancel()
	c := s.config
	k, err := s.openSink(ctx, c.Source.Group+role+c.Snapshot.ModelID)
	if err != nil {
		return s.cluster.Explain(err)
	}
	defer func() { _ = k.Close() }()
	a, err := s.snapshots(ctx, source.Latest)
	if err != nil {
		return err
	}
	if newest, ok := a.Newest(snap.ModelID); ok {
		if same, err := takePlaceOf(snap, newest); same || err != nil {
			return err
		}
		snap.Number, snap.Parent, snap.Version = newest.Number+1, newest.Version, newest.Version+snap.Version
		snap.Model.Info.Rows = snap.Version
	}
	msgs, _, err := snapshot.Messages(snap, c.Snapshot.Topic, c.Snapshot.Keep, a.Slots(snap.ModelID))
	if err != nil {
		return err
	}
	return k.Put(ctx, msgs, source.Claim{})
}

// takePlaceOf makes snap the published snapshot if both are the same but for their place in the
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
