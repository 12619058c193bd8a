package pipeline

import (
	"bytes"
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

// NewestOwner refuses models by key whose newest version in the first partition that has any is another pipeline's. base is what their ids begin
// with; partitions are those of the snapshot topic.
func NewestOwner(ctx context.Context, partitions []*ReadBack, base string, ours Owner) error {
	for _, p := range partitions {
		newest, err := NewestByKey(ctx, p, func(r *source.Record) bool {
			of, _, _, ok := modelkey.Split(source.LastHeader(r.Headers, "lca-model-id"))
			return ok && of == base
		})
		switch {
		case err != nil:
			return err
		case newest == nil:
			continue
		}
		theirs := Owner{Group: newest.Group, Topic: newest.LearntFrom()}
		if theirs.Topic == "" { // made by a replay of files, or of another topic
			theirs.Topic = ours.Topic
		}
		if theirs != ours {
			return foreignByKey(newest.ModelID, p.Topic, theirs, ours)
		}
		return nil
	}
	return nil
}

// NewestByKey returns the newest snapshot that is wanted in a partition, without its neighbours; nil if there is none. It looks at the newest records alone.
func NewestByKey(ctx context.Context, of *ReadBack, want func(*source.Record) bool) (newest *snapshot.Snapshot, err error) {
	var key []byte
	err = of.ReadRecent(ctx, 0, func(got *source.Fetched) error {
		for i := range got.Records {
			r := &got.Records[i]
			switch {
			case r.Value == nil && bytes.Equal(r.Key, key): // a model that was retired
				newest = nil
			case r.Value != nil && want(r):
				if about, err := snapshot.About(r.Value); err == nil { // what is damaged is reported where it is used
					about.Time, about.By, about.Group = time.UnixMilli(r.Timestamp), source.LastHeader(r.Headers, "lca-model-by"), source.LastHeader(r.Headers, "lca-group")
					newest, key = about, bytes.Clone(r.Key)
				}
			}
		}
		return nil
	}, func() bool { return newest != nil })
	return newest, err
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
