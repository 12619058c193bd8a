package learn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// readStates reads what is known of the checkpoints. The first time it refuses those from which a learner cannot go on, before new models begin.
func (k *KeyedLearn) readStates(ctx context.Context) error {
	if k.compared {
		return k.States.Read(ctx)
	}
	newest, version, err := k.newestPublished(ctx)
	if err != nil {
		return err
	}
	if err := k.States.Read(ctx); err != nil {
		return err
	}
	if err := k.owned(ctx); err != nil {
		return err
	}
	if newest != "" {
		if err := k.notOlder(ctx, newest, version); err != nil {
			return err
		}
		k.trusted = true
	}
	if err := k.continues(ctx); err != nil {
		return err
	}
	k.compared = true
	return nil
}

// newestPublished returns the model that our group has published last in the partition, and its version. The model may have been retired since; "": there is none.
func (k *KeyedLearn) newestPublished(ctx context.Context) (id string, version uint64, err error) {
	if k.Snapshots == nil {
		return "", 0, nil
	}
	_, err = k.Snapshots.ReadNewest(ctx, 0, func(r *source.Record) bool {
		of := source.LastHeader(r.Headers, "lca-model-id")
		base, partition, _, ok := modelkey.Split(of)
		if !ok || base != k.ModelID || partition != k.Partition.ID || source.LastHeader(r.Headers, reject.HeaderGroup) != k.States.Owner.Group {
			return false
		}
		number, err := strconv.ParseUint(source.LastHeader(r.Headers, reject.HeaderVersion), 10, 64)
		if err != nil { // another program's
			return false
		}
		id, version = of, number
		return true
	})
	return id, version, err
}

// notOlder refuses checkpoints, as Learn.notOlder does, from before the newest version that our group has published in the partition: the checkpoint topic was changed, restored, or deleted. Every snapshot is in one transaction
// with a checkpoint of its model, so the newest is among the checkpoints. Models would begin again, and publish versions again with other content
// (invariant 3). The snapshot is looked for first: what is published meanwhile is in the checkpoints as well.
func (k *KeyedLearn) notOlder(ctx context.Context, newest string, version uint64) error {
	_, _, value, _ := modelkey.Split(newest)
	if version <= k.States.reached(string(value)) {
		return nil
	}
	if s, known := k.States.index[string(value)]; !known || s.retired { // it may have been retired, and the record of that be lost
		if err := k.compare(ctx); err != nil || k.lost[newest] == 0 {
			return err
		}
	}
	return &reject.Stop{
		Err: fmt.Errorf("this learner has published version %d of model %q on topic %s, and topic %s has no checkpoint of it, or an older one: versions would be published again",
			version, newest, k.Topic, k.States.Topic),
		Remedy: remedyLost,
	}
}

// notLost refuses to begin a model while others lack their checkpoints, or have older ones, that our group has published: a part of the checkpoint topic
// was deleted, or a replay has put some of the models back after all were lost. Versions would be published again with other content, as notOlder says, which
// looks at the newest model alone.
func (k *KeyedLearn) notLost(ctx context.Context) error {
	if err := k.compare(ctx); err != nil || len(k.lost) == 0 {
		return err
	}
	return k.lostModel(slices.Min(slices.Collect(maps.Keys(k.lost))))
}

// compare finds the models that lack their checkpoints, or have older ones. It costs the reading of all snapshots of the partition, so it waits for a value that has no
// checkpoint, or for what mayPublish says. They are read before what is new among the checkpoints, as in readStates.
func (k *KeyedLearn) compare(ctx context.Context) error {
	if k.Snapshots == nil || k.lost != nil {
		return nil
	}
	published := publishedModels{}
	var spans snapshot.Spans
	err := k.Snapshots.Read(ctx, func(got *source.Fetched) error {
		for i := range got.Records {
			published.take(&spans, &got.Records[i], k.States.Owner.Group)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := k.States.Read(ctx); err != nil {
		return err
	}
	if _, err := k.States.topicID(ctx); err != nil {
		return err
	}
	k.lost, k.bases = map[string]uint64{}, map[string]uint64{}
	for id, newest := range published {
		base, partition, value, ok := modelkey.Split(id)
		if !ok || base != k.ModelID || partition != k.Partition.ID || newest.Version <= k.States.reached(string(value)) {
			continue
		}
		if s, known := k.States.index[string(value)]; newest.deleted && (!known || s.retired) {
			k.bases[string(value)] = newest.Version // the record that it was retired is lost
			continue
		}
		k.lost[id] = newest.Version
	}
	return nil
}

// lostModel is why a learner stops because of a model that has lost its checkpoint, or has an older one.
func (k *KeyedLearn) lostModel(id string) error {
	return &reject.Stop{
		Err: fmt.Errorf("this learner has published version %d of model %q on topic %s, and topic %s has no checkpoint of it, or an older one (so for %s of partition %d): versions would be published again",
			k.lost[id], id, k.Topic, k.States.Topic, plural.Count(len(k.lost), "model"), k.Partition.ID),
		Remedy: remedyLost,
	}
}

const remedyLost = "set checkpoint.topic to the one that was used last; or `lca-stream replay --to TIME` learns all models again and puts them in their places, where source.topic has their rows, and `lca-stream offsets reset --stage learn --to TIME` goes on after these; or set another snapshot.model_id"

// publishedModels are the newest snapshots of models, by id.
type publishedModels map[string]*publishedModel

type publishedModel struct {
	*snapshot.Span
	deleted bool // it was retired, and is still on the topic before its tombstones
}

// take adds a record of the snapshot topic, in its order, if it is the last of a snapshot of a group, or deletes one.
func (p publishedModels) take(spans *snapshot.Spans, r *source.Record, group string) {
	whole, gone, err := spans.Add(r.Key, r.Value, r.Headers, r.Offset)
	switch {
	case err != nil: // of another program, or damaged: the transform reports it
	case whole != nil && whole.Group == group:
		if was := p[whole.ModelID]; was == nil || was.deleted || was.Version < whole.Version {
			p[whole.ModelID] = &publishedModel{Span: whole}
		}
	case gone != nil && p[gone.ModelID] != nil && p[gone.ModelID].Deletes(gone):
		p[gone.ModelID].deleted = true
	}
}

// Check refuses settings with which the models of a partition cannot go on, as continues does, before any partition is taken: one without models would
// begin some with the new settings, before another one refuses them. It reads the newest checkpoints alone, and is for a stage that does nothing else.
func (k *KeyedLearn) Check(ctx context.Context) error {
	k.quiet = slog.New(quietHandler{k.Log.Handler()})
	if err := k.States.readNewest(ctx); err != nil {
		return err
	}
	err := k.continues(ctx)
	if errors.Is(err, ErrDamaged) { // a replay may have put another one behind it, whose transaction is not complete yet: the start itself waits for that
		return nil
	}
	return err
}

// Foretell is Check, and refuses checkpoints from before what is published, too, as a start does. It reads the headers of all checkpoints.
func (k *KeyedLearn) Foretell(ctx context.Context) error {
	k.quiet = slog.New(quietHandler{k.Log.Handler()})
	return k.readStates(ctx)
}

// continues refuses settings with which the model that was saved last cannot go on, although no row of it has come yet: models that began
// with others would end the learner once the settings are set back.
func (k *KeyedLearn) continues(ctx context.Context) error {
	last, state := "", keyedState{at: -1}
	for value, s := range k.States.index {
		if !s.retired && s.at > state.at {
			last, state = value, s
		}
	}
	if state.at < 0 {
		return nil
	}
	c, err := k.States.fetch(ctx, last, state)
	if c == nil || err != nil { // it is not there any more, as when another learner has the partition
		return err
	}
	return k.newOne(last).continues(c)
}

// lost is why a learner gives a partition up: the checkpoint of a model that it knows is not on the topic any more. Another learner, which
// has the partition by now, has retired the model.
func lost(model string) error {
	return fmt.Errorf("pipeline: model %q has lost its checkpoint: %w", model, sink.ErrFenced)
}

// reached is the newest version of a model that may be on the snapshot topic.
func (t *KeyedStates) reached(value string) uint64 {
	if s, known := t.index[value]; known && !s.retired {
		return s.published
	}
	return t.Last(value)
}

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
	Ours checkpoint.Owner

	parts []newestByKey // of the snapshot topic
}

// Check refuses models that are another pipeline's. The partitions are those of the snapshot topic, always in the same order.
func (o *ModelsOwner) Check(ctx context.Context, partitions []*checkpoint.ReadBack) error {
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
		theirs := checkpoint.Owner{Group: newest.Group, Topic: newest.LearntFrom()}
		if theirs.Topic == "" { // made by a replay of files, or of another topic
			theirs.Topic = o.Ours.Topic
		}
		if theirs != o.Ours {
			return checkpoint.ForeignByKey(newest.ModelID, p.Topic, theirs, o.Ours)
		}
		return nil
	}
	return nil
}

// NewestByKey returns the newest snapshot that is wanted in a partition, without its neighbours; nil if there is none.
func NewestByKey(ctx context.Context, of *checkpoint.ReadBack, want func(*source.Record) bool) (*snapshot.Snapshot, error) {
	return new(newestByKey).look(ctx, of, want)
}

// newestByKey remembers the newest snapshot of a partition.
type newestByKey struct {
	next   int64              // everything before it was looked at
	newest *snapshot.Snapshot // nil: there was none
}

// look brings it up to date. A model that was retired counts as long as its records are there: whether it lives says nothing of whose it is.
func (n *newestByKey) look(ctx context.Context, of *checkpoint.ReadBack, want func(*source.Record) bool) (*snapshot.Snapshot, error) {
	var newest *snapshot.Snapshot
	end, err := of.ReadNewest(ctx, n.next, func(r *source.Record) bool {
		if r.Value == nil || !want(r) {
			return false
		}
		about, err := snapshot.About(r.Value)
		if err != nil { // what is damaged is reported where it is used
			return false
		}
		about.Time, about.By, about.Group = source.Calendar(time.UnixMilli(r.Timestamp)), source.LastHeader(r.Headers, reject.HeaderBy), source.LastHeader(r.Headers, reject.HeaderGroup)
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
