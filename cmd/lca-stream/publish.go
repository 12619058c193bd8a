package main

import (
	"context"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// publish puts a snapshot that was not made by the live learner onto the topic, in one transaction.
// role keeps its transactional id apart from the learner's, which goes on undisturbed. A version only
// grows for a model id: if there is a newer one, what it has learnt counts on.
func (s *system) publish(ctx context.Context, role string, snap *snapshot.Snapshot) error {
	c := s.config
	k, err := sink.OpenKafka(ctx, sink.KafkaConfig{
		Cluster: s.cluster, Log: s.log, TransactionalID: c.Source.Group + role + c.Snapshot.ModelID,
	})
	if err != nil {
		return s.cluster.Explain(err)
	}
	defer func() { _ = k.Close() }()
	a, err := s.snapshots(ctx)
	if err != nil {
		return err
	}
	if newest, ok := a.Newest(snap.ModelID); ok {
		snap.Number, snap.Parent, snap.Version = newest.Number+1, newest.Version, newest.Version+snap.Version
		snap.Model.Info.Rows = snap.Version
	}
	msgs, _, err := snapshot.Messages(snap, c.Snapshot.Topic, c.Snapshot.Keep, a.Slots(snap.ModelID))
	if err != nil {
		return err
	}
	return k.Put(ctx, msgs, source.Claim{})
}
