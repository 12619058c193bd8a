package learn

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
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
	cut := k.crowd.before > 0 && m.learnt <= k.crowd.before // a model that a replay has put may have learnt nothing of the topic
	if !m.alive() || !k.over(k.idle.here, m.heard) && !cut {
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
		_, heard, alive := k.last(first.value)
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

// last returns how far a model has learnt, and the time of the partition at its last row; false if there is no such model.
func (k *KeyedLearn) last(value string) (learnt, heard int64, alive bool) {
	if m := k.models[value]; m != nil {
		return m.learnt, m.heard, m.alive()
	}
	s, known := k.States.index[value]
	return s.learnt, s.heard, known && !s.retired
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
		slots, s.version, chunks = m.one.slots, m.one.version(), m.one.Checkpoints.Chunks[0]
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
	k.addNote(k.States.floorMessage(floor))
}

// addNote puts a note with the rest.
func (k *KeyedLearn) addNote(m sink.Message) {
	k.pending, k.bytes = append(k.pending, m), k.bytes+m.Size()
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
	k.idle.noted = &savedClock{1, at, clock.now, clock.least, slices.Clone(clock.last[:clock.n])}
	k.addNote(k.States.note(noteClock, mustJSON(k.idle.noted)))
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
	if k.idle.n == 0 || now.Sub(k.idle.said) < models.ModelEvery {
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

// In the place of the first chunk of its checkpoint, MODEL_ID/0/0, a retired model leaves a record of a few bytes with the headers
//
//	lca-retired          true
//	lca-model-version    its last version, after which those of its key go on
//	lca-learnt-offset    rows below this offset of the source were its, and are not learnt again
//	lca-last-row         as of a checkpoint
//	lca-model-id, lca-group
//
// There are at most mostRetired of them in a partition. Those that were written first are deleted then, and a record
//
//	BASE/PARTITION/retired    lca-model-version: the highest version of those that were deleted
//
// says at which version models begin that have no record. So versions of a key never go back.

// mostRetired bounds the records of retired models in a partition.
const mostRetired = 1 << 16

// mostStale bounds those in the order that are not retired any more.
const mostStale = 1 << 10

// retiredValue is the value of these records: without one they would delete.
const retiredValue = "retired"

// retiredModels are the retired models of an index.
type retiredModels struct {
	n     int            // number of those in the index
	order []retiredModel // those in the index, and some that are not any more, in the order of their records
	floor uint64         // version at which models begin that have no record
	most  int            // 0: mostRetired
}

type retiredModel struct {
	value   string
	version uint64
}

// set puts what is known of a model into the index.
func (t *KeyedStates) set(value string, s keyedState) {
	t.unset(value)
	t.index[value] = s
	if !s.retired {
		return
	}
	g := &t.gone
	g.n++
	g.order = append(g.order, retiredModel{value, s.version})
	if len(g.order) > 2*g.n+mostStale {
		t.tidy()
	}
}

// unset removes a model from the index.
func (t *KeyedStates) unset(value string) {
	if t.index[value].retired {
		t.gone.n--
	}
	delete(t.index, value)
}

// tidy leaves those in the order of retired models that are retired still.
func (t *KeyedStates) tidy() {
	order := t.gone.order[:0]
	for _, g := range t.gone.order {
		if t.still(g) {
			order = append(order, g)
		}
	}
	t.gone.order = order
}

func (t *KeyedStates) still(g retiredModel) bool {
	s := t.index[g.value]
	return s.retired && s.version == g.version
}

// surplus returns retired models beyond mostRetired, those first that were retired first, as far as they may be forgotten.
func (t *KeyedStates) surplus(may func(value string, s *keyedState) bool) (all []retiredModel) {
	most := t.gone.most
	if most == 0 {
		most = mostRetired
	}
	for _, g := range t.gone.order {
		if t.gone.n-len(all) <= most {
			break
		}
		s := t.index[g.value]
		if t.still(g) && may(g.value, &s) {
			all = append(all, g)
		}
	}
	return all
}

// dropped notes that the record of a retired model is no longer on the topic.
func (t *KeyedStates) dropped(value string, version uint64) {
	t.unset(value)
	t.gone.floor = max(t.gone.floor, version)
	if len(t.gone.order) > 0 && t.gone.order[0].value == value {
		t.gone.order = t.gone.order[1:]
	}
}

// retirement are the records that put a retired model in the place of a checkpoint of some chunks.
func (t *KeyedStates) retirement(id string, s *keyedState, chunks int, at *int64) []sink.Message {
	writer := checkpoint.Checkpoints{ReadBack: checkpoint.ReadBack{Topic: t.Topic}, ModelID: id, Chunks: [2]int{chunks}}
	msgs := writer.Delete([]sink.Message{{
		Topic: t.Topic, Key: writer.Key(0, 0), Value: []byte(retiredValue), Offset: at,
		Headers: []source.Header{
			reject.Text("lca-model-id", id), reject.Text(reject.HeaderRetired, "true"), reject.Text(reject.HeaderVersion, strconv.FormatUint(s.version, 10)),
			reject.Text(reject.HeaderLearnt, strconv.FormatInt(s.learnt, 10)), reject.Text(reject.HeaderLastRow, strconv.FormatInt(s.heard, 10)), reject.Text(reject.HeaderGroup, t.Owner.Group),
		},
	}}, 0, 1)
	for i := range msgs {
		msgs[i].Partition = t.Partition
	}
	return msgs
}

// forgotten deletes the record of a retired model.
func (t *KeyedStates) forgotten(id string) []sink.Message {
	writer := checkpoint.Checkpoints{ReadBack: checkpoint.ReadBack{Topic: t.Topic}, ModelID: id}
	return []sink.Message{{Topic: t.Topic, Partition: t.Partition, Key: writer.Key(0, 0)}}
}

// Last returns the version after which those of a value go on that has no model: that of the model that was retired; 0 if there was none.
func (t *KeyedStates) Last(value string) uint64 {
	s, known := t.index[value]
	switch {
	case !known:
		return t.gone.floor
	case s.retired:
		return max(s.version, t.gone.floor)
	}
	return 0
}

// floorMessage says at which version models begin that have no record.
func (t *KeyedStates) floorMessage(version uint64) sink.Message {
	return t.note(noteRetired, []byte(retiredValue), reject.Text(reject.HeaderVersion, strconv.FormatUint(version, 10)), reject.Text(reject.HeaderGroup, t.Owner.Group))
}

// clockRecords is of how many records with rows the last are remembered. A time has come when most of them have reached it: one or two
// that are stamped ahead of the others move nothing.
const clockRecords = 5

// idleClock is the time of a partition at an offset, in milliseconds: the latest that most of five records in a row had reached.
type idleClock struct {
	now   int64               // math.MinInt64: not known
	least int64               // a time that it is not before; math.MinInt64: none is known
	last  [clockRecords]int64 // timestamps, the newest first
	n     int                 // of them
	full  bool                // most have come
}

func newIdleClock(least int64) idleClock { return idleClock{now: least, least: least} }

// pass goes on by a record. Before three records have come nothing is known for sure: the time is the earliest of them, or the one
// that it is not before.
func (c *idleClock) pass(stamp int64) {
	copy(c.last[1:], c.last[:])
	c.last[0] = stamp
	c.n = min(c.n+1, clockRecords)
	sorted := c.last
	slices.Sort(sorted[:c.n])
	const most = clockRecords/2 + 1
	switch {
	case c.n < most && c.least == math.MinInt64:
		c.now = sorted[0]
	case c.n == most && !c.full:
		c.now, c.full = max(c.least, sorted[0]), true
	case c.n >= most:
		c.now = max(c.now, sorted[c.n-most])
	}
}

// savedClock is the clock at the offset that is committed with it, as a record of the checkpoint topic. The rows before it are not read again.
type savedClock struct {
	Version int     `json:"v"`
	Offset  int64   `json:"offset"`
	Now     int64   `json:"now"`
	Least   int64   `json:"least"`
	Last    []int64 `json:"last"`
}

func (s *savedClock) clock() idleClock {
	c := idleClock{now: s.Now, least: s.Least, n: len(s.Last), full: len(s.Last) > clockRecords/2}
	copy(c.last[:], s.Last)
	return c
}
