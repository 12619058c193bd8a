package learn

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// keyedModel is a model of a KeyedLearn that is in memory, or whose rows are held.
type keyedModel struct {
	value  string
	one    *Learn              // nil: not in memory
	plan   *minibatch.Features // reads its rows; nil: not in memory
	learnt int64               // rows of messages below this offset are learnt or held
	held   heldRows
	seen   time.Time
	heard  int64 // time of the partition at that row

	since   int64         // offset of the first row that is not in a checkpoint
	at      time.Time     // when that row was read
	clock   idleClock     // before that row
	unsaved *list.Element // nil: every row is in a checkpoint
	stale   *list.Element // nil: there is a snapshot of what is learnt
	staleAt time.Time     // when it became stale
	recent  *list.Element // nil: not in memory
	marked  bool          // it is to be saved, because of its rows
	made    bool          // a snapshot of it is pending, whose checkpoint is not
	fresh   bool          // it begins from nothing, and no checkpoint has it
	base    uint64        // version at which it begins
	watched bool          // it is among those that may be retired
	leaving bool          // that it was retired is pending: the index does not know yet
	bytes   int64         // of memory
}

// alive reports whether there is a model: one that has rows, or a checkpoint, and was not retired.
func (m *keyedModel) alive() bool { return m.one != nil || m.held.plan != nil || !m.fresh }

// model returns a model, and makes it known if it is not.
func (k *KeyedLearn) model(value string) *keyedModel {
	m := k.models[value]
	if m == nil {
		s, known := k.States.index[value]
		m = &keyedModel{value: value, learnt: s.learnt, heard: s.heard}
		m.watched = known && !s.retired
		if m.fresh = !m.watched; m.fresh {
			m.base = max(s.version, k.States.gone.floor)
		}
		k.models[value] = m
	}
	return m
}

// learn lets a model in memory learn rows.
func (k *KeyedLearn) learn(ctx context.Context, m *keyedModel, h *heldRows) error {
	one := m.one
	if !slices.Equal(h.plan.Names, one.features.Names) {
		return &reject.Stop{Err: fmt.Errorf("model %q learns %v, and was given rows of %v", one.ModelID, one.features.Names, h.plan.Names)}
	}
	id := minibatch.NewRowIDs("", 0)
	k.ids = k.ids[:0]
	for _, o := range h.ordinals {
		k.ids = append(k.ids, id.ID(0, int(one.state.Ordinal)+int(o)))
	}
	one.state.Ordinal += uint64(h.all)
	one.skip, one.skipped = k.skip, k.skipped
	one.learner.Borrow(&k.scratch)
	err := k.minibatches(ctx, one, h)
	one.learner.Return(&k.scratch)
	k.skip, k.skipped = one.skip, one.skipped
	if kept := k.collect(ctx, m); err == nil {
		err = kept
	}
	k.recent.MoveToBack(m.recent)
	k.show(m)
	return err
}

// minibatches gives rows to a learner minibatch by minibatch, each at the place of the row that completes it. The snapshot or the alarm that
// a minibatch makes due says that place, and not how far the batch went by chance.
func (k *KeyedLearn) minibatches(ctx context.Context, one *Learn, h *heldRows) error {
	dim := h.plan.Dim()
	for first := 0; first < len(k.ids); {
		next, most := first+1, min(first+max(one.batcher.Rows()-one.batcher.Len(), 1), len(k.ids))
		for next < most && h.stamps[next] == h.stamps[first] {
			next++
		}
		one.at = reject.Place{Topic: k.Partition.Topic, Partition: k.Partition.ID, Offset: h.offsets[next-1]}
		one.offsets[k.Partition] = one.at.Offset
		if err := one.learnRows(ctx, h.x[first*dim:next*dim], k.ids[first:next], h.stamps[first]); err != nil {
			return err
		}
		first = next
	}
	return nil
}

// collect takes what a model has to publish.
func (k *KeyedLearn) collect(ctx context.Context, m *keyedModel) error {
	one := m.one
	published := one.published > 0
	if published {
		if err := k.mayPublish(ctx, m); err != nil {
			return err
		}
	}
	for _, msg := range one.pending {
		if msg.Topic == k.Topic {
			msg.Partition = k.Partition.ID
		}
		k.pending = append(k.pending, msg)
		k.bytes += msg.Size()
	}
	k.made += one.published
	one.pending, one.published = nil, 0
	m.made = m.made || published
	k.noteStale(m)
	if !m.marked && (published || k.CheckpointRows > 0 && one.sinceRows >= k.CheckpointRows) {
		m.marked = true
		k.marked = append(k.marked, m)
	}
	return nil
}

// publish makes a snapshot of a model, and saves it. Rows that are held are learnt before: the snapshot says up to which offset the model's rows
// were read, and is the same whether it was in memory or not.
func (k *KeyedLearn) publish(ctx context.Context, m *keyedModel) error {
	if err := k.learnHeld(ctx, m); err != nil {
		return err
	}
	if err := k.load(ctx, m, nil); err != nil {
		return err
	}
	m.one.offsets[k.Partition] = m.learnt
	m.one.learner.Borrow(&k.scratch)
	err := m.one.publish(false)
	m.one.learner.Return(&k.scratch)
	if err != nil {
		return err
	}
	if err := k.collect(ctx, m); err != nil {
		return err
	}
	k.Stats.Models.Change(m.one.ModelID, func(r *stats.ModelRow) { r.Version = m.one.shown() })
	if m.stale != nil { // there is no model yet
		k.stale.Remove(m.stale)
		m.stale = nil
	}
	return k.saveOne(ctx, m)
}

// noteStale notes whether a model in memory has learnt rows that no snapshot has.
func (k *KeyedLearn) noteStale(m *keyedModel) {
	stale := k.SnapshotEvery > 0 && m.one.version() > m.one.state.Published && !m.one.waits()
	switch {
	case stale && m.stale == nil:
		k.becomesStale(m)
	case !stale && m.stale != nil:
		k.stale.Remove(m.stale)
		m.stale = nil
	}
}

func (k *KeyedLearn) becomesStale(m *keyedModel) {
	m.stale, m.staleAt = k.stale.PushBack(m), k.Now()
}

// findStale finds the models that were saved with rows that were not published. Those that wait for their first snapshot are left alone: with
// thousands of young models, each would be fetched for nothing.
func (k *KeyedLearn) findStale() {
	if k.SnapshotEvery == 0 {
		return
	}
	for value, s := range k.States.index {
		if !s.retired && !s.waits && s.version > s.published {
			k.becomesStale(k.model(value))
		}
	}
}

// saveOne adds a checkpoint of a model to what is pending, with what is held for it.
func (k *KeyedLearn) saveOne(ctx context.Context, m *keyedModel) error {
	if err := k.learnHeld(ctx, m); err != nil {
		return err
	}
	m.marked = false
	if m.unsaved == nil && !m.made {
		return nil
	}
	if m.unsaved != nil {
		k.unsaved.Remove(m.unsaved)
		m.unsaved = nil
	}
	m.made = false
	if m.one == nil { // none of its rows was valid, and there never was another
		k.release(m)
		return nil
	}
	one := m.one
	one.offsets[k.Partition] = m.learnt
	c, err := one.saved()
	if err != nil {
		return err
	}
	save := keyedSave{value: m.value, at: new(int64)}
	*save.at = -1
	save.state = keyedState{sequence: c.Sequence, learnt: m.learnt, version: one.version(), published: one.state.Published, dim: m.plan.Dim(), heard: m.heard, waits: one.waits(), plan: m.plan}
	msgs, err := k.States.messages(c, one.Checkpoints, &save.state, save.at)
	if err != nil {
		return err
	}
	one.state.Sequence, one.sinceRows, m.fresh = c.Sequence, 0, false
	save.state.chunks = one.Checkpoints.Chunks[0]
	size := 0
	for i := range msgs {
		size += len(msgs[i].Value)
		k.bytes += msgs[i].Size()
	}
	k.pending, k.saves = append(k.pending, msgs...), append(k.saves, save)
	k.weigh(m, size)
	return nil
}

// load brings a model into memory: from its newest checkpoint, or as a new one with the features of plan.
func (k *KeyedLearn) load(ctx context.Context, m *keyedModel, plan *minibatch.Features) error {
	if m.one != nil {
		return nil
	}
	var c *checkpoint.Checkpoint
	if !m.fresh {
		var err error
		if c, err = k.States.Load(ctx, m.value); err != nil {
			return err
		}
	}
	one, err := k.newOne(m.value), error(nil)
	size := 0
	switch {
	case c == nil && plan == nil:
		err = lost(one.ModelID)
	case c == nil:
		if err = k.notLost(ctx); err == nil {
			err = one.start(minibatch.Features{Names: plan.Names})
		}
		if err == nil {
			size, _, _ = checkpoint.CheckpointBytes(k.Learner.Neighbours, plan.Dim())
			m.base = max(m.base, k.bases[m.value])
			one.state.Base, one.state.Published = m.base, m.base
		}
	default:
		size = len(c.Learner) + len(c.Batcher)
		one.Checkpoints.Chunks[0] = (c.Size() + checkpoint.ChunkBytes - 1) / checkpoint.ChunkBytes
		err = one.restore(c)
	}
	if err != nil {
		return err
	}
	one.learner.Return(&k.scratch)
	m.plan = k.planOf(one.features.Names)
	one.features.Names = m.plan.Names
	if len(k.Columns) > 0 {
		k.chosen[m.plan.Dim()] = m.plan
	}
	m.one, m.recent = one, k.recent.PushBack(m)
	k.share.held(1)
	if c != nil {
		k.Memory.counts.Loaded.Add(1)
	}
	k.weigh(m, size)
	return nil
}

// newOne returns the learner of one model, which has no state yet.
func (k *KeyedLearn) newOne(value string) *Learn {
	one := &Learn{LearnConfig: k.LearnConfig, oneOfMany: true}
	one.ModelID = modelkey.ID(k.ModelID, k.Partition.ID, []byte(value))
	one.Alarms.ModelID, one.Log, one.Rejects, one.Newest = one.ModelID, k.quiet, nil, nil
	if k.Alarms.To != nil {
		one.Alarms.Partition = k.Alarms.To(one.ModelID)
	}
	one.Checkpoints = &checkpoint.Checkpoints{ReadBack: checkpoint.ReadBack{Topic: k.States.Topic}, ModelID: one.ModelID, Owner: k.States.Owner, By: k.By.String(), OneSlot: true}
	one.reset(source.Offsets{k.Partition: 0})
	return one
}

// weigh notes how much memory a model takes. size is that of its state; what a learner needs to find its way in it is
// about as much again.
func (k *KeyedLearn) weigh(m *keyedModel, size int) {
	const around = 12 << 10
	k.share.add(-m.bytes)
	m.bytes = int64(size)*3/2 + around
	k.share.add(m.bytes)
}

// weighKnown notes how much memory is taken by what is known of that many values: their places in the index, in the lists and in
// the table of models. It cannot be given back, so half of the stage's part is left to models.
func (k *KeyedLearn) weighKnown(values int) {
	const each = 256
	now := min(int64(values)*each, k.share.even()/2)
	k.share.add(now - k.known)
	k.known = now
}

// evict lets models leave memory, the least recently used first, while the stage takes more than its part. One stays. Held rows
// may take half of it: beyond that fewer are held for each model, and at last those that have waited longest are learnt and saved.
func (k *KeyedLearn) evict(ctx context.Context) error {
	k.weighKnown(len(k.models) + len(k.States.index))
	if !k.share.over() {
		return nil
	}
	part := k.share.even()
	if k.held > part/2 {
		k.hurry = min(k.hurry+1, 16)
	}
	for first := k.unsaved.Front(); k.held > part && first != nil && k.bytes < evictBytes; first = k.unsaved.Front() {
		if err := k.saveOne(ctx, first.Value.(*keyedModel)); err != nil {
			return err
		}
	}
	for k.share.own-k.held > part-min(k.held, part/2) && k.recent.Len() > 1 && k.bytes < evictBytes {
		if err := k.leave(ctx, k.recent.Front().Value.(*keyedModel)); err != nil {
			return err
		}
	}
	return nil
}

// leave lets a model leave memory, once it is saved. Nothing asks for it again before the put that saves it has ended.
func (k *KeyedLearn) leave(ctx context.Context, m *keyedModel) error {
	if err := k.saveOne(ctx, m); err != nil {
		return err
	}
	k.unload(m)
	k.Memory.counts.Evicted.Add(1)
	k.release(m)
	return nil
}

// unloadSaved lets the models leave memory of which nothing is left to save: at the end, none is needed again.
func (k *KeyedLearn) unloadSaved() {
	for e := k.recent.Front(); e != nil; {
		m := e.Value.(*keyedModel)
		if e = e.Next(); m.unsaved == nil && m.stale == nil {
			k.unload(m)
			k.release(m)
		}
	}
}

// unload lets a model leave memory.
func (k *KeyedLearn) unload(m *keyedModel) {
	k.share.add(-m.bytes)
	k.weighHeld(-m.held.bytes())
	m.bytes, m.held = 0, heldRows{}
	if m.one == nil {
		return
	}
	if m.one.learner != nil {
		m.one.learner.Close()
	}
	k.share.held(-1)
	k.hide(m)
	m.one, m.plan = nil, nil
	if m.recent != nil {
		k.recent.Remove(m.recent)
		m.recent = nil
	}
}

// release forgets a model of which nothing is in memory.
func (k *KeyedLearn) release(m *keyedModel) {
	if m.one == nil && m.unsaved == nil && m.stale == nil && !m.leaving {
		delete(k.models, m.value)
	}
}

// show brings what the status page and the API show of a model up to date.
func (k *KeyedLearn) show(m *keyedModel) {
	i, one := m.one.learner.Info(), m.one
	k.Stats.Models.Update(one.ModelID, func(r *stats.ModelRow) {
		r.RowsLearnt, r.InMemory, r.LastRow = i.Rows, true, source.Calendar(m.seen)
		r.Version = one.shown()
		r.Alarms = i.Alarms
		if gain := i.GaussianNLL - i.NLL; gain == gain {
			r.Gain = gain
		}
	})
}

// hide notes that a model is no longer in memory.
func (k *KeyedLearn) hide(m *keyedModel) {
	k.Stats.Models.Update(m.one.ModelID, func(r *stats.ModelRow) { r.InMemory = false })
}

// shown is the version of the newest snapshot; 0: there is none, or it is of another model.
func (l *Learn) shown() uint64 {
	if l.state.Published == l.state.Base {
		return 0
	}
	return l.state.Published
}

// ModelMemory bounds the memory of the models that the stages of a process hold: model.memory of the configuration, for
// learners and for transforms each. A stage holds one model at least.
type ModelMemory struct {
	limit  int64
	used   atomic.Int64
	stages atomic.Int64
	counts *stats.ModelCounts
}

// NewModelMemory returns memory of that many bytes, for models that are counted in counts.
func NewModelMemory(limit int64, counts *stats.ModelCounts) *ModelMemory {
	return &ModelMemory{limit: limit, counts: counts}
}

// modelShare is the part of one stage.
type modelShare struct {
	of     *ModelMemory
	own    int64
	models int64
}

// join begins a stage's part.
func (m *ModelMemory) join() *modelShare {
	m.stages.Add(1)
	return &modelShare{of: m}
}

// leave gives everything back.
func (s *modelShare) leave() {
	s.add(-s.own)
	s.held(-s.models)
	s.of.stages.Add(-1)
}

func (s *modelShare) add(bytes int64) {
	s.own += bytes
	s.of.used.Add(bytes)
}

func (s *modelShare) held(models int64) {
	s.models += models
	s.of.counts.Memory.Add(models)
}

// even is the stage's even part of the memory.
func (s *modelShare) even() int64 { return s.of.limit / max(1, s.of.stages.Load()) }

// over reports whether the stage has to give memory back: all together have too much, and this one has more than its
// even part.
func (s *modelShare) over() bool {
	return s.of.used.Load() > s.of.limit && s.own > s.even()
}
