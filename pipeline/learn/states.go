package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// KeyedStates is one partition of the checkpoint topic, with the checkpoints of the models of one partition of the
// source. It remembers where the newest checkpoint of each model is, and fetches one when it is asked for.
//
// A checkpoint is one or more consecutive records with keys MODEL_ID/0/CHUNK and the headers of Checkpoints. In
// addition they have
//
//	lca-model-version    version of the model: rows learnt
//	lca-learnt-offset    rows of the model below this offset of the source are in the checkpoint
//	lca-published        version of its newest snapshot
//	lca-d                number of features
//	lca-last-row         time of the partition at the model's last row, in milliseconds; see KeyedLearnConfig.Idle
//	lca-model-by         model.by: two ways to tell values apart do not share models
//	lca-waits            "true": it has learnt too few rows for a first snapshot
//
// so that the index needs no value. Only the owner of the partition writes checkpoints there. In the place of the checkpoint of
// a model that was retired is a record of its last version; see retire.go.
type KeyedStates struct {
	checkpoint.ReadBack // of the partition
	Partition           int32
	ModelID             string // base of the models' ids
	Owner               checkpoint.Owner
	By                  modelkey.By

	index map[string]keyedState  // by value of model.by
	gone  retiredModels          // of the index
	next  int64                  // everything before it is in the index
	read  checkpoint.TopicReader // of single checkpoints

	id       string      // of the topic; "": not known
	clock    *savedClock // at the offset that was committed last; nil: there is none
	cuts     *savedCuts  // as of what was committed last; nil: there are none
	commands *savedCommands
	compared string // id of the topic whose models were compared with their snapshots
}

// keyedState is where the newest checkpoint of a model is.
type keyedState struct {
	at        int64 // offset of the first chunk; -1: not known
	chunks    int
	sequence  uint64
	learnt    int64
	version   uint64              // rows learnt
	published uint64              // version of the newest snapshot
	dim       int                 // number of features
	heard     int64               // time of the partition at the model's last row
	waits     bool                // too few rows for a first snapshot: there is nothing to publish
	retired   bool                // there is no model: chunks, published, dim and plan say nothing
	plan      *minibatch.Features // reads its rows; nil: not known in this process
}

// mostChunks is more than the chunks of any checkpoint: 59 GB.
const mostChunks = 1 << 16

// lookups bounds how often a checkpoint is looked up again that is not where the index says.
const lookups = 5

// Read brings the index up to date with everything that is committed.
func (t *KeyedStates) Read(ctx context.Context) error {
	if t.index == nil {
		t.index = map[string]keyedState{}
	}
	end, err := t.End(ctx)
	if err != nil {
		return err
	}
	return t.From(ctx, t.next, end, t.takeAll)
}

// readNewest reads as many of the newest records as it takes to have a checkpoint of a model.
func (t *KeyedStates) readNewest(ctx context.Context) error {
	reset := func() { t.index, t.gone = map[string]keyedState{}, retiredModels{most: t.gone.most} }
	reset()
	return t.ReadTail(ctx, reset, t.takeAll, func() bool { return len(t.index) > t.gone.n })
}

func (t *KeyedStates) takeAll(got *source.Fetched) error {
	for i := range got.Records {
		if err := t.take(&got.Records[i]); err != nil {
			return err
		}
	}
	t.next = got.Next
	return nil
}

// take adds one record to the index.
func (t *KeyedStates) take(r *source.Record) error {
	if t.takeNote(r) {
		return nil
	}
	id, slot, chunk, ok := checkpoint.SplitStateKey(string(r.Key))
	if !ok {
		return nil // a start marker or a claim
	}
	if id == t.ModelID {
		return checkpoint.AllRowsThere(t.Topic, id)
	}
	base, partition, value, ok := modelkey.Split(id)
	if !ok || base != t.ModelID || partition != t.Partition || slot != 0 || chunk != 0 {
		return nil
	}
	if r.Value == nil {
		t.unset(string(value))
		return nil
	}
	if group := source.LastHeader(r.Headers, reject.HeaderGroup); group != "" && group != t.Owner.Group {
		return checkpoint.ForeignByKey(id, t.Topic, checkpoint.Owner{Group: group, Topic: t.Owner.Topic}, t.Owner)
	}
	if err := checkpoint.OtherBy(t.Topic, id, source.LastHeader(r.Headers, reject.HeaderBy), t.By); err != nil {
		return err
	}
	s, err := stateOf(r)
	if err != nil {
		return &reject.Stop{
			Err:    fmt.Errorf("checkpoint of model %q at offset %d of topic %s: its headers are unusable: %w", id, r.Offset, t.Topic, err),
			Remedy: "another program writes to this topic; give the models another checkpoint.topic and snapshot.model_id",
		}
	}
	t.set(string(value), s)
	return nil
}

// The notes of a partition are records under BASE/PARTITION/NAME. They concern all of its models. Where the name is the value too, it is there because
// a record without a value deletes.
const (
	noteRetired  = retiredValue // at which version models begin that have no record, see mostRetired
	noteReset    = "reset"      // see Move
	noteCompared = "compared"   // see CompareAgain
	noteClock    = "clock"      // a savedClock
	noteCuts     = "cuts"       // savedCuts
	noteCommands = "commands"   // savedCommands
)

// note is the record of a note.
func (t *KeyedStates) note(name string, value []byte, headers ...source.Header) sink.Message {
	return sink.Message{Topic: t.Topic, Partition: t.Partition, Key: fmt.Appendf(nil, "%s/%d/%s", t.ModelID, t.Partition, name), Value: value, Headers: headers}
}

// takeNote adds a note to the index. It returns false for another record.
func (t *KeyedStates) takeNote(r *source.Record) bool {
	base, name, _ := modelkey.CutLast(string(r.Key))
	if base != t.ModelID+"/"+strconv.Itoa(int(t.Partition)) {
		return false
	}
	ours := source.LastHeader(r.Headers, reject.HeaderGroup) == t.Owner.Group
	switch name {
	case noteRetired:
		if version, err := strconv.ParseUint(source.LastHeader(r.Headers, reject.HeaderVersion), 10, 64); err == nil {
			t.gone.floor = max(t.gone.floor, version)
		}
	case noteReset:
		if to, err := strconv.ParseInt(source.LastHeader(r.Headers, reject.HeaderLearnt), 10, 64); err == nil && ours {
			t.unlearn(to)
		}
	case noteCompared:
		if t.compared = ""; r.Value != nil && ours {
			t.compared = source.LastHeader(r.Headers, headerTopicID)
		}
	case noteClock:
		var s savedClock
		if t.clock = nil; json.Unmarshal(r.Value, &s) == nil && s.Version == 1 && len(s.Last) <= clockRecords {
			t.clock = &s
		}
	case noteCuts:
		var s savedCuts
		if t.cuts = nil; json.Unmarshal(r.Value, &s) == nil && s.Version == 1 {
			t.cuts = &s
		}
	case noteCommands:
		var s savedCommands
		if t.commands = nil; json.Unmarshal(r.Value, &s) == nil && s.Version == 1 {
			t.commands = &s
		}
	default:
		return false
	}
	return true
}

// unlearn says that no model has learnt rows from an offset on.
func (t *KeyedStates) unlearn(to int64) {
	for value, s := range t.index {
		if s.learnt > to {
			s.learnt = to
			t.index[value] = s
		}
	}
}

// mustJSON encodes numbers, which can always be.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// stateOf reads the headers of a checkpoint's first record, or of the record of a retired model.
func stateOf(r *source.Record) (keyedState, error) {
	s := keyedState{at: r.Offset, chunks: 1, retired: source.LastHeader(r.Headers, reject.HeaderRetired) != ""}
	var errs []error
	number := func(key string) int64 {
		n, err := strconv.ParseInt(source.LastHeader(r.Headers, key), 10, 64)
		if err == nil && n < 0 && key != reject.HeaderLastRow {
			err = fmt.Errorf("%s is %d", key, n)
		}
		errs = append(errs, err)
		return n
	}
	s.learnt, s.version = number(reject.HeaderLearnt), uint64(number(reject.HeaderVersion))
	s.heard = number(reject.HeaderLastRow)
	if !s.retired {
		_, chunks, _ := strings.Cut(source.LastHeader(r.Headers, "lca-chunk"), "/")
		var err error
		if s.chunks, err = strconv.Atoi(chunks); err == nil && (s.chunks < 1 || s.chunks > mostChunks) {
			err = fmt.Errorf("%d chunks", s.chunks)
		}
		errs = append(errs, err)
		s.waits = source.LastHeader(r.Headers, reject.HeaderWaits) != ""
		s.sequence, s.published, s.dim = uint64(number("lca-checkpoint")), uint64(number(reject.HeaderPublished)), int(number(reject.HeaderDim))
	}
	return s, errors.Join(errs...)
}

// messages are the records of a checkpoint of a model. at is set to the offset of the first of them by the put.
func (t *KeyedStates) messages(c *checkpoint.Checkpoint, writer *checkpoint.Checkpoints, s *keyedState, at *int64) ([]sink.Message, error) {
	msgs, err := writer.Messages(c)
	for i := range msgs {
		m := &msgs[i]
		m.Partition = t.Partition
		if m.Value != nil {
			m.Headers = append(m.Headers, reject.Text(reject.HeaderLearnt, strconv.FormatInt(s.learnt, 10)), reject.Text(reject.HeaderVersion, strconv.FormatUint(s.version, 10)),
				reject.Text(reject.HeaderPublished, strconv.FormatUint(c.Published, 10)), reject.Text(reject.HeaderGroup, t.Owner.Group), reject.Text(reject.HeaderBy, t.By.String()),
				reject.Text(reject.HeaderDim, strconv.Itoa(len(c.Features))), reject.Text(reject.HeaderLastRow, strconv.FormatInt(s.heard, 10)))
			if s.waits {
				m.Headers = append(m.Headers, reject.Text(reject.HeaderWaits, "true"))
			}
		}
	}
	if len(msgs) > 0 {
		msgs[0].Offset = at
	}
	return msgs, err
}

// kept notes a checkpoint, or the record of a retired model, that is on the topic now.
func (t *KeyedStates) kept(value string, s keyedState) {
	t.set(value, s)
	if s.at >= 0 {
		t.next = max(t.next, s.at+int64(s.chunks))
	}
}

// Load fetches the newest checkpoint of a model; nil if there is none.
func (t *KeyedStates) Load(ctx context.Context, value string) (*checkpoint.Checkpoint, error) {
	for range lookups {
		s, ok := t.index[value]
		if !ok || s.retired {
			return nil, nil
		}
		if s.at >= 0 {
			c, err := t.fetch(ctx, value, s)
			if c != nil || err != nil {
				return c, err
			}
		}
		// It is not where it was written, because the broker did not say where, or because the topic has changed.
		t.unset(value)
		t.next = 0
		if err := t.Read(ctx); err != nil {
			return nil, err
		}
	}
	return nil, t.unreadable(value, errors.New("it is not where the topic's records say"))
}

// fetch reads the checkpoint at an offset; nil if it is not there.
func (t *KeyedStates) fetch(ctx context.Context, value string, s keyedState) (*checkpoint.Checkpoint, error) {
	if err := t.moveTo(ctx, s.at, s.at+int64(s.chunks)); err != nil {
		return nil, err
	}
	id := modelkey.ID(t.ModelID, t.Partition, []byte(value))
	var parts checkpoint.SlotParts
	parts.Parts = map[int]checkpoint.ChunkPart{}
	end := s.at + int64(s.chunks)                // chunks follow one another: what is behind them is another checkpoint, or the record of a retired model
	for next := s.at; next < min(end, t.next); { // chunks behind what was read are not there, whatever the first one says
		got, err := t.read.Fetch(ctx)
		if err != nil {
			t.read = nil
			return nil, err
		}
		for i := range got.Records {
			r := &got.Records[i]
			if r.Offset >= end {
				return nil, nil
			}
			if chunk, ok := chunkOf(r, id); ok {
				parts.Parts[chunk] = checkpoint.ChunkPartOf(r.Value, r.Headers)
			} else if r.Offset == s.at {
				return nil, nil // another record has its place: the topic is another one
			}
			if len(parts.Parts) == s.chunks {
				return t.decode(value, &parts)
			}
		}
		if next = got.Next; len(parts.Parts) == 0 && next > s.at {
			return nil, nil
		}
	}
	return nil, nil
}

func (t *KeyedStates) decode(value string, parts *checkpoint.SlotParts) (*checkpoint.Checkpoint, error) {
	c, err := parts.Decode()
	if err != nil {
		return nil, t.unreadable(value, err)
	}
	if c.Owner != t.Owner && t.Owner != (checkpoint.Owner{}) {
		return nil, checkpoint.ForeignByKey(modelkey.ID(t.ModelID, t.Partition, []byte(value)), t.Topic, c.Owner, t.Owner)
	}
	return c, nil
}

func (t *KeyedStates) unreadable(value string, err error) error {
	id, remedy := modelkey.ID(t.ModelID, t.Partition, []byte(value)), "set another snapshot.model_id"
	if errors.Is(err, checkpoint.ErrNewerFormat) {
		remedy = "use the newer binary; or " + remedy
	} else {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
		remedy = fmt.Sprintf("`lca-stream replay --model-id '%s'` learns this model alone again and puts it in its place; or %s", id, remedy)
	}
	return &reject.Stop{Err: fmt.Errorf("checkpoint of model %q on topic %s: %w", id, t.Topic, err), Remedy: remedy}
}

// ErrDamaged is why a checkpoint cannot be read that no newer binary has written.
var ErrDamaged = errors.New("it is damaged")

// Outline is what the headers say of a checkpoint whose bytes are damaged: another one that takes its place goes on from there.
func (t *KeyedStates) Outline(value string, features []string) *checkpoint.Checkpoint {
	s := t.index[value]
	return &checkpoint.Checkpoint{
		ModelID: modelkey.ID(t.ModelID, t.Partition, []byte(value)), Sequence: s.sequence, Published: s.published, Features: features,
		Offsets: source.Offsets{{Topic: t.Owner.Topic, ID: t.Partition}: s.learnt},
	}
}

// mover is a reader that can go elsewhere, which costs less than another reader.
type mover interface{ Move(next int64) }

// wanter is a reader that can do with small responses: those of a reader that goes on are many times larger than a checkpoint.
type wanter interface{ Want(until int64) }

// moveTo moves the reader to an offset, to read what is before another one.
func (t *KeyedStates) moveTo(ctx context.Context, at, until int64) (err error) {
	if m, ok := t.read.(mover); ok {
		m.Move(at)
	} else if t.read, err = t.Open(ctx, at); err != nil {
		return err
	}
	if w, ok := t.read.(wanter); ok {
		w.Want(until)
	}
	return nil
}

// chunkOf returns which chunk of a model's checkpoint a record is.
func chunkOf(r *source.Record, id string) (chunk int, ok bool) {
	rest, found := strings.CutPrefix(string(r.Key), id+"/0/")
	if !found || r.Value == nil {
		return 0, false
	}
	chunk, err := strconv.Atoi(rest)
	return chunk, err == nil
}

// A model that has a checkpoint may have an older one than its newest version, although the newest model of the partition has not: a
// checkpoint topic was made again from an older copy, and a replay has put some of the models back. To find that out takes a reading of all snapshots of the partition, so
// a learner does it once for a checkpoint topic, before it publishes the first version of a model that it has not begun itself. It then writes the record
//
//	BASE/PARTITION/compared    lca-topic-id: of the checkpoint topic, lca-group
//
// A copy on another topic has the id of the former one, and a replay deletes the record: both are compared again. Where brokers tell no ids
// (before Kafka 2.8) each start compares. So does one that finds no snapshot of ours, and so nothing by which it could tell that the checkpoints are
// the newest.

const headerTopicID = "lca-topic-id"

// comparedMessage says that the models on the topic of an id were compared.
func (t *KeyedStates) comparedMessage(id string) sink.Message {
	return t.note(noteCompared, []byte(noteCompared), reject.Text(headerTopicID, id), reject.Text(reject.HeaderGroup, t.Owner.Group))
}

// CompareAgain returns the record after which the models of the partition are compared with their snapshots again.
func (t *KeyedStates) CompareAgain() sink.Message {
	return t.note(noteCompared, nil)
}

// topicID returns the id of the topic, as it was when it was asked for first; "" if brokers tell none.
func (t *KeyedStates) topicID(ctx context.Context) (string, error) {
	if t.TopicID == nil || t.id != "" {
		return t.id, nil
	}
	id, err := t.TopicID(ctx)
	t.id = id
	return id, err
}

// mayPublish refuses to publish, or to delete, versions of a model that has an older checkpoint than its newest version, or of one that
// another pipeline publishes too.
func (k *KeyedLearn) mayPublish(ctx context.Context, m *keyedModel) error {
	if k.Owns != nil {
		if err := k.Owns(ctx); err != nil {
			return err
		}
	}
	if k.lost == nil {
		id, err := k.States.topicID(ctx)
		if err != nil || id != "" && id == k.States.compared && k.trusted {
			return err
		}
		if err := k.compare(ctx); err != nil {
			return err
		}
	}
	if len(k.lost) == 0 {
		return nil
	}
	if id := modelkey.ID(k.ModelID, k.Partition.ID, []byte(m.value)); k.lost[id] > 0 {
		return k.lostModel(id)
	}
	return nil
}

// noteCompared adds the record that says that the models were compared and none is lost, if it is not there.
func (k *KeyedLearn) noteCompared() {
	if t := k.States; k.lost != nil && len(k.lost) == 0 && t.id != t.compared && !k.noting {
		k.pending, k.noting = append(k.pending, t.comparedMessage(t.id)), true
	}
}

// An operator who has a partition read from another offset moves all its models at once, however many there are. On the checkpoint
// topic this is one record,
//
//	BASE/PARTITION/reset    lca-learnt-offset: where reading goes on, lca-group
//
// which counts for the checkpoints before it: rows from that offset on are in none of them. Only the newest stays when the topic is
// compacted. That suffices, because nothing below the offset of the newest reset is read again.

// Move returns the record after which all models of the partition learn rows from an offset on, whatever they have learnt.
func (t *KeyedStates) Move(to int64) sink.Message {
	return t.note(noteReset, []byte(noteReset), reject.Text(reject.HeaderLearnt, strconv.FormatInt(to, 10)), reject.Text(reject.HeaderGroup, t.Owner.Group))
}

// ReplaceKeyed returns the checkpoint with which the learner of one value's model goes on from s, as Replace does for a model of all
// rows. c is that model's checkpoint, as t has loaded it; nil: it has none, and gets one, because a learner by key goes on from
// checkpoints alone, and its versions would go back. Rows below the offset of c are passed over as before.
func (l *Learn) ReplaceKeyed(t *KeyedStates, c *checkpoint.Checkpoint, s *snapshot.Snapshot, slots snapshot.Slots) ([]sink.Message, error) {
	_, partition, value, ok := modelkey.Split(s.ModelID)
	if !ok {
		panic("pipeline: internal error: the model belongs to no value")
	}
	writer := &checkpoint.Checkpoints{ReadBack: checkpoint.ReadBack{Topic: t.Topic}, ModelID: s.ModelID, Owner: t.Owner, OneSlot: true}
	one := *l
	one.ModelID, one.Checkpoints, one.oneOfMany = s.ModelID, writer, true
	before := t.index[string(value)]
	if c == nil {
		c = &checkpoint.Checkpoint{ModelID: s.ModelID, Features: s.Features, Offsets: source.Offsets{{Topic: t.Owner.Topic, ID: partition}: before.learnt}}
	} else {
		writer.Chunks[0] = before.chunks
	}
	next, err := one.replaced(c, s, slots)
	if err != nil {
		return nil, err
	}
	state := keyedState{learnt: before.learnt, version: s.Version, heard: before.heard}
	if before.retired || before.chunks == 0 { // it lives again from here on
		state.heard = time.Now().UnixMilli()
	}
	return t.messages(next, writer, &state, new(int64))
}
