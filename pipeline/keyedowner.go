package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// Models by key belong to one pipeline, all together: two that share them could not both go on in some partitions each. On a checkpoint topic that
// both use, checkpoints name their group, and a claim decides before there is one (see Owner). Where only the snapshot topic is shared, the newest
// version decides, in the first partition that has any.

// owned refuses to begin in a partition where another pipeline publishes, and claims the models where no checkpoint names their owner.
func (k *KeyedLearn) owned(ctx context.Context) error {
	if k.Owns != nil {
		if err := k.Owns(ctx); err != nil {
			return err
		}
	}
	if k.Claim == nil || len(k.States.index) > 0 {
		return nil
	}
	return k.Claim(ctx)
}

// ModelsOwner tells whether models by key are another pipeline's, by the newest version in the first partition that has any. It remembers what it has
// found, and reads only what is new the next time: a learner asks as long as it publishes.
type ModelsOwner struct {
	Base string // what the models' ids begin with
	Ours Owner

	parts []newestByKey // of the snapshot topic
}

// Check refuses models that are another pipeline's. The partitions are those of the snapshot topic, always in the same order.
func (o *ModelsOwner) Check(ctx context.Context, partitions []*ReadBack) error {
	for i, p := range partitions {
		if i == len(o.parts) {
			o.parts = append(o.parts, newestByKey{})
		}
		newest, err := o.parts[i].look(ctx, p, func(r *source.Record) bool {
			of, _, _, ok := modelkey.Split(source.LastHeader(r.Headers, "lca-model-id"))
			return ok && of == o.Base
		})
		switch {
		case err != nil:
			return err
		case newest == nil:
			continue
		}
		theirs := Owner{Group: newest.Group, Topic: newest.LearntFrom()}
		if theirs.Topic == "" { // made by a replay of files, or of another topic
			theirs.Topic = o.Ours.Topic
		}
		if theirs != o.Ours {
			return foreignByKey(newest.ModelID, p.Topic, theirs, o.Ours)
		}
		return nil
	}
	return nil
}

// NewestByKey returns the newest snapshot that is wanted in a partition, without its neighbours; nil if there is none.
func NewestByKey(ctx context.Context, of *ReadBack, want func(*source.Record) bool) (*snapshot.Snapshot, error) {
	return new(newestByKey).look(ctx, of, want)
}

// newestByKey remembers the newest snapshot of a partition.
type newestByKey struct {
	next   int64              // everything before it was looked at
	newest *snapshot.Snapshot // nil: there was none
}

// look brings it up to date. A model that was retired counts as long as its records are there: whether it lives says nothing of whose it is.
func (n *newestByKey) look(ctx context.Context, of *ReadBack, want func(*source.Record) bool) (*snapshot.Snapshot, error) {
	var newest *snapshot.Snapshot
	end, err := of.ReadNewest(ctx, n.next, func(r *source.Record) bool {
		if r.Value == nil || !want(r) {
			return false
		}
		about, err := snapshot.About(r.Value)
		if err != nil { // what is damaged is reported where it is used
			return false
		}
		about.Time, about.By, about.Group = source.Calendar(time.UnixMilli(r.Timestamp)), source.LastHeader(r.Headers, headerBy), source.LastHeader(r.Headers, headerGroup)
		newest = about
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case end < n.next: // the topic was made again
		*n = newestByKey{}
		return n.look(ctx, of, want)
	case newest != nil:
		n.newest = newest
	}
	n.next = end
	return n.newest, nil
}

// foreignByKey is foreign for a model of many.
func foreignByKey(modelID, topic string, theirs, ours Owner) error {
	err := foreign(modelID, topic, theirs, ours)
	var stop *Stop
	if errors.As(err, &stop) {
		stop.Remedy = "give this pipeline models of its own by another snapshot.model_id, or topics of its own by snapshot.topic and checkpoint.topic"
	}
	return err
}
