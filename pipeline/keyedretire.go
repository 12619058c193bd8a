package pipeline

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// A model that has had no row for KeyedLearnConfig.Idle is retired: its snapshots and its checkpoint are deleted, and what
// stays is a record of its last version, from which the versions of its key go on.
//
// Time is that of the partition: the latest that most of five records in a row had reached, so that one or two that are stamped ahead of
// the others retire nothing; and never later than the clock. While nothing comes, it stands still; where a backlog is read late, it is
// that of the backlog. Each put says what time it is at the offset that it commits, because the records before it are not read again. A row that comes when this time has gone on for more than Idle since the model's last row begins the model
// again, whether the records are written already or not. So the records alone decide what is learnt, and the
// records of retired models may be written at any time after that: some with each batch.

// mostAtOnce bounds the models that are retired with one batch.
const mostAtOnce = 256

// idleModels tells which models have had no row for long.
type idleModels struct {
	idleClock             // time of the partition
	times     []idleClock // … before each message of the batch, and after the last
	here      int64       // … at the message that is read, in milliseconds
	before    idleClock   // … before it
	noted     *savedClock // what is to be put
	queue     idleQueue

	n    int    // models retired and not yet logged
	one  string // id of one of them
	said time.Time
}

func (m *idleModels) reset() {
	m.idleClock, m.here, m.queue = newIdleClock(math.MinInt64), math.MinInt64, nil
	m.before = m.idleClock
}

// read finds the time at each message of a batch.
func (m *idleModels) read(idle time.Duration, clock func() time.Time, msgs []source.Message) {
	m.times = m.times[:0]
	if idle == 0 || len(msgs) == 0 {
		return
	}
	latest := clock().UnixMilli()
	for i := range msgs {
		m.times = append(m.times, m.idleClock)
		if msg := &msgs[i]; msg.Err == nil && msg.Record != nil && msg.Record.NumRows() > 0 {
			m.pass(min(max(msg.Time.UnixMilli(), 0), latest)) // a negative one is none
		}
	}
	m.times = append(m.times, m.idleClock)
}

// at goes to a message of the batch.
func (m *idleModels) at(i int) {
	if i+1 < len(m.times) {
		m.before, m.here = m.times[i], m.times[i+1].now
	}
}

// hear notes that a row of a model has come.
func (k *KeyedLearn) hear(m *keyedModel) {
	if k.Idle == 0 {
		m.heard = max(m.heard, m.seen.UnixMilli())
		return
	}
	m.heard = k.idle.here
	if !m.watched {
		m.watched = true
		heap.Push(&k.idle.queue, idleModel{m.value, m.heard})
	}
}

// begins lets a model begin again if its row comes after it should have been retired. Where the rows before were not saved, the
// model remains among those that hold the committed offset back: others have rows that came before this one.
func (k *KeyedLearn) begins(ctx context.Context, m *keyedModel) error {
	if !m.alive() || !k.over(k.idle.here, m.heard) && m.learnt > k.crowd.before {
		return nil
	}
	return k.retire(ctx, m)
}

// over reports whether a model that had its last row at one time is to be retired at another.
func (k *KeyedLearn) over(now, heard int64) bool {
	return k.Idle > 0 && now > math.MinInt64 && heard < now-k.Idle.Milliseconds()
}

// retireIdle retires models that have had no row for long, the longest first.
func (k *KeyedLearn) retireIdle(ctx context.Context) error {
	for n := 0; len(k.idle.queue) > 0 && n < mostAtOnce && k.bytes < savesBytes; {
		first := &k.idle.queue[0]
		if !k.over(k.idle.now, first.heard) {
			break
		}
		heard, alive := k.lastHeard(first.value)
		if alive && heard > first.heard {
			first.heard = heard
			heap.Fix(&k.idle.queue, 0)
			continue
		}
		value := heap.Pop(&k.idle.queue).(idleModel).value
		if !alive {
			continue
		}
		if err := k.retireModel(ctx, value); err != nil {
			return err
		}
		n++
	}
	return nil
}

// retireModel retires a model of which no row of the batch begins it again.
func (k *KeyedLearn) retireModel(ctx context.Context, value string) error {
	m := k.model(value)
	if err := k.retire(ctx, m); err != nil {
		return err
	}
	if m.watched = false; m.unsaved != nil {
		k.unsaved.Remove(m.unsaved)
		m.unsaved = nil
	}
	return nil
}

// lastHeard returns when a model had its last row; false if there is no such model.
func (k *KeyedLearn) lastHeard(value string) (heard int64, alive bool) {
	if m := k.models[value]; m != nil {
		return m.heard, m.alive()
	}
	s, known := k.States.index[value]
	return s.heard, known && !s.retired
}

// retire deletes a model. Rows that are held for it are learnt before, because its version counts them. The put that
// deletes it says up to which offset its rows were: they are never learnt again.
func (k *KeyedLearn) retire(ctx context.Context, m *keyedModel) error {
	if err := k.learnHeld(ctx, m); err != nil {
		return err
	}
	if err := k.mayPublish(ctx, m); err != nil {
		return err
	}
	slots, s := snapshot.Slots(nil), keyedState{chunks: 1, learnt: m.learnt, heard: m.heard, retired: true}
	chunks := 0
	switch saved := k.States.index[m.value]; {
	case m.one != nil:
		slots, s.version, chunks = m.one.slots, m.one.version(), m.one.Checkpoints.chunks[0]
	case saved.waits: // there never was a snapshot
		s.version, chunks = saved.version, saved.chunks
	default:
		c, err := k.States.Load(ctx, m.value)
		if err == nil && c == nil {
			err = lost(m.value)
		}
		if err != nil {
			return err
		}
		saved = k.States.index[m.value]
		slots, s.version, chunks = c.Slots, saved.version, saved.chunks
	}
	id := modelkey.ID(k.ModelID, k.Partition.ID, []byte(m.value))
	save := keyedSave{value: m.value, at: new(int64), state: s}
	*save.at = -1
	msgs := snapshot.Tombstones(id, k.Topic, slots)
	for i := range msgs {
		msgs[i].Partition = k.Partition.ID
	}
	k.pend(save, append(msgs, k.States.retirement(id, &s, chunks, save.at)...))
	k.unload(m)
	if m.stale != nil {
		k.stale.Remove(m.stale)
		m.stale = nil
	}
	m.fresh, m.base, m.made, m.leaving = true, s.version, false, true
	return nil
}

// pend adds what is to be put.
func (k *KeyedLearn) pend(save keyedSave, msgs []sink.Message) {
	for i := range msgs {
		k.bytes += msgs[i].Size()
	}
	k.pending, k.saves = append(k.pending, msgs...), append(k.saves, save)
}

// Marked notes from where on rows may come again: from the start marker on, where the committed offset is gone.
func (k *KeyedLearn) Marked(at source.Offsets) {
	if next, ok := at[k.Partition]; ok {
		k.mark = next
	}
}

// forgetRetired deletes the records of models that were retired first, where there are too many, and raises the version at which
// models begin that have no record. Those whose rows may come again are kept, because these would be learnt again.
func (k *KeyedLearn) forgetRetired() {
	below := k.committable()
	forget := k.States.surplus(func(value string, s *keyedState) bool {
		return s.learnt <= min(below, k.mark) && k.models[value] == nil
	})
	if len(forget) == 0 {
		return
	}
	floor := k.States.gone.floor
	for _, g := range forget {
		id := modelkey.ID(k.ModelID, k.Partition.ID, []byte(g.value))
		k.pend(keyedSave{value: g.value, state: keyedState{version: g.version}, drop: true}, k.States.forgotten(id))
		floor = max(floor, g.version)
	}
	floorAt := k.States.floorMessage(floor)
	k.pending = append(k.pending, floorAt)
	k.bytes += floorAt.Size()
}

// watchIdle finds out, after a restart, what time it is and which models may be retired. Where no record says the time, it is not before
// what checkpoints say that hold no more than the rows below the committed offset.
func (k *KeyedLearn) watchIdle() {
	if k.Idle == 0 {
		return
	}
	least := int64(math.MinInt64)
	for value, s := range k.States.index {
		if s.learnt <= k.next {
			least = max(least, s.heard)
		}
		if !s.retired {
			k.idle.queue = append(k.idle.queue, idleModel{value, s.heard})
		}
	}
	heap.Init(&k.idle.queue)
	switch saved := k.States.clock; {
	case saved != nil && saved.Offset == k.next:
		k.idle.idleClock = saved.clock()
	case saved != nil && saved.Offset < k.next: // the offset was set by hand
		least = max(least, saved.Now)
		fallthrough
	default: // or no clock is there, of an earlier release
		k.idle.idleClock = newIdleClock(least)
	}
}

// noteClock adds what time it is at the offset that is committed, if that has moved.
func (k *KeyedLearn) noteClock() {
	at := k.committable()
	if k.Idle == 0 || k.States.clock != nil && k.States.clock.Offset == at {
		return
	}
	clock := k.idle.idleClock
	if first := k.unsaved.Front(); first != nil {
		clock = first.Value.(*keyedModel).clock
	}
	msg := k.States.clockMessage(at, &clock)
	k.idle.noted = &savedClock{1, at, clock.now, clock.least, slices.Clone(clock.last[:clock.n])}
	k.pending, k.bytes = append(k.pending, msg), k.bytes+msg.Size()
}

// retired notes that a model is no more.
func (k *KeyedLearn) retired(value string) {
	id := modelkey.ID(k.ModelID, k.Partition.ID, []byte(value))
	k.Memory.counts.Retired.Add(1)
	k.Stats.Models.Remove(id)
	k.idle.n, k.idle.one = k.idle.n+1, id
	if m := k.models[value]; m != nil {
		m.leaving = false
		k.release(m)
	}
}

// sayRetired logs at most once a minute that models were retired.
func (k *KeyedLearn) sayRetired(now time.Time) {
	if k.idle.n == 0 || now.Sub(k.idle.said) < modelEvery {
		return
	}
	why := "models were retired, because no row came for model.idle"
	if k.crowd.before > 0 {
		why = "models were retired: a partition keeps those heard of last"
	}
	k.Log.Info(why, "models", k.idle.n, "one_of_them", k.idle.one, "idle", k.Idle, "most", k.most())
	k.idle.n, k.idle.said = 0, now
}

// idleModel is a model that is to be retired some time after heard, if no row comes.
type idleModel struct {
	value string
	heard int64
}

// idleQueue is a heap of models, the one that was heard of longest ago first. Those of which rows have come since are found to
// be later when they are first.
type idleQueue []idleModel

func (q idleQueue) Len() int { return len(q) }
func (q idleQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].heard, q[j].heard), cmp.Compare(q[i].value, q[j].value)) < 0
}
func (q idleQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push adds a model.
func (q *idleQueue) Push(m any) { *q = append(*q, m.(idleModel)) }

// Pop removes the last.
func (q *idleQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
