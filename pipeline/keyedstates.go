package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
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
//	lca-waits            "true": it has learnt too few rows for a first snapshot; older checkpoints do not say so
//
// so that the index needs no value. Only the owner of the partition writes checkpoints there. In the place of the checkpoint of
// a model that was retired is a record of its last version; see retiredmodels.go.
type KeyedStates struct {
	Topic     string
	Partition int32
	ModelID   string // base of the models' ids
	Owner     Owner
	By        modelkey.By
	OpenAt    func(context.Context, int64) (TopicReader, error) // a read_committed reader from an offset, or the beginning if that is later
	End       func(context.Context) (int64, error)              // the high watermark of the partition, see ReadBack
	TopicID   func(context.Context) (string, error)             // id of the topic; "" if brokers tell none; nil = none
	Log       *slog.Logger                                      // nil: waiting is not logged

	index map[string]keyedState // by value of model.by
	gone  retiredModels         // of the index
	next  int64                 // everything before it is in the index
	read  TopicReader           // of single checkpoints

	id       string      // of the topic; "": not known
	clock    *savedClock // at the offset that was committed last; nil: there is none
	cuts     *savedCuts  // as of what was committed last; nil: there are none
	compared string      // id of the topic whose models were compared with their snapshots
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

const (
	headerLearnt    = "lca-learnt-offset"
	headerPublished = "lca-published"
	headerDim       = "lca-d"
	headerVersion   = "lca-model-version"
	headerLastRow   = "lca-last-row"
	headerWaits     = "lca-waits"
	headerRetired   = "lca-retired"
	headerGroup     = "lca-group"
	headerBy        = "lca-model-by"
)

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
	return t.readBack().from(ctx, t.next, end, t.takeAll)
}

// readNewest reads as many of the newest records as it takes to have a checkpoint of a model.
func (t *KeyedStates) readNewest(ctx context.Context) error {
	reset := func() { t.index, t.gone = map[string]keyedState{}, retiredModels{most: t.gone.most} }
	reset()
	return t.readBack().ReadTail(ctx, reset, t.takeAll, func() bool { return len(t.index) > t.gone.n })
}

func (t *KeyedStates) readBack() *ReadBack {
	return &ReadBack{Topic: t.Topic, Open: t.fromStart, OpenAt: t.OpenAt, End: t.End, Log: t.Log}
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

func (t *KeyedStates) fromStart(ctx context.Context) (TopicReader, error) { return t.OpenAt(ctx, 0) }

// take adds one record to the index.
func (t *KeyedStates) take(r *source.Record) error {
	if t.takeFloor(r) || t.takeReset(r) || t.takeCompared(r) || t.takeClock(r) || t.takeCuts(r) {
		return nil
	}
	id, slot, chunk, ok := splitStateKey(string(r.Key))
	if !ok {
		return nil // a start marker or a claim
	}
	if id == t.ModelID {
		return allRowsThere(t.Topic, id)
	}
	base, partition, value, ok := modelkey.Split(id)
	if !ok || base != t.ModelID || partition != t.Partition || slot != 0 || chunk != 0 {
		return nil
	}
	if r.Value == nil {
		t.unset(string(value))
		return nil
	}
	if group := source.LastHeader(r.Headers, headerGroup); group != "" && group != t.Owner.Group {
		return foreignByKey(id, t.Topic, Owner{Group: group, Topic: t.Owner.Topic}, t.Owner)
	}
	if err := OtherBy(t.Topic, id, source.LastHeader(r.Headers, headerBy), t.By); err != nil {
		return err
	}
	s, err := stateOf(r)
	if err != nil {
		return &Stop{
			Err:    fmt.Errorf("checkpoint of model %q at offset %d of topic %s: its headers are unusable: %w", id, r.Offset, t.Topic, err),
			Remedy: "another program writes to this topic; give the models another checkpoint.topic and snapshot.model_id",
		}
	}
	t.set(string(value), s)
	return nil
}

// stateOf reads the headers of a checkpoint's first record, or of the record of a retired model.
func stateOf(r *source.Record) (keyedState, error) {
	s := keyedState{at: r.Offset, chunks: 1, retired: source.LastHeader(r.Headers, headerRetired) != ""}
	var errs []error
	number := func(key string) int64 {
		n, err := strconv.ParseInt(source.LastHeader(r.Headers, key), 10, 64)
		if err == nil && n < 0 && key != headerLastRow {
			err = fmt.Errorf("%s is %d", key, n)
		}
		errs = append(errs, err)
		return n
	}
	s.learnt, s.version = number(headerLearnt), uint64(number(headerVersion))
	if s.heard = r.Timestamp; source.LastHeader(r.Headers, headerLastRow) != "" { // the first checkpoints by key did not have it
		s.heard = number(headerLastRow)
	}
	if !s.retired {
		_, chunks, _ := strings.Cut(source.LastHeader(r.Headers, "lca-chunk"), "/")
		var err error
		if s.chunks, err = strconv.Atoi(chunks); err == nil && (s.chunks < 1 || s.chunks > mostChunks) {
			err = fmt.Errorf("%d chunks", s.chunks)
		}
		errs = append(errs, err)
		s.waits = source.LastHeader(r.Headers, headerWaits) != ""
		s.sequence, s.published, s.dim = uint64(number("lca-checkpoint")), uint64(number(headerPublished)), int(number(headerDim))
	}
	return s, errors.Join(errs...)
}

// splitStateKey reads MODEL_ID/SLOT/CHUNK from the right.
func splitStateKey(key string) (id string, slot, chunk int, ok bool) {
	rest, last, found := modelkey.CutLast(key)
	id, middle, found2 := modelkey.CutLast(rest)
	if !found || !found2 {
		return "", 0, 0, false
	}
	slot, err := strconv.Atoi(middle)
	chunk, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || id+"/"+strconv.Itoa(slot)+"/"+strconv.Itoa(chunk) != key {
		return "", 0, 0, false
	}
	return id, slot, chunk, true
}

// messages are the records of a checkpoint of a model. at is set to the offset of the first of them by the put.
func (t *KeyedStates) messages(c *Checkpoint, writer *Checkpoints, s *keyedState, at *int64) ([]sink.Message, error) {
	msgs, err := writer.Messages(c)
	for i := range msgs {
		m := &msgs[i]
		m.Partition = t.Partition
		if m.Value != nil {
			m.Headers = append(m.Headers, text(headerLearnt, strconv.FormatInt(s.learnt, 10)), text(headerVersion, strconv.FormatUint(s.version, 10)),
				text(headerPublished, strconv.FormatUint(c.Published, 10)), text(headerGroup, t.Owner.Group), text(headerBy, t.By.String()),
				text(headerDim, strconv.Itoa(len(c.Features))), text(headerLastRow, strconv.FormatInt(s.heard, 10)))
			if s.waits {
				m.Headers = append(m.Headers, text(headerWaits, "true"))
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
func (t *KeyedStates) Load(ctx context.Context, value string) (*Checkpoint, error) {
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
func (t *KeyedStates) fetch(ctx context.Context, value string, s keyedState) (*Checkpoint, error) {
	if err := t.moveTo(ctx, s.at, s.at+int64(s.chunks)); err != nil {
		return nil, err
	}
	id := modelkey.ID(t.ModelID, t.Partition, []byte(value))
	var parts slotParts
	parts.parts = map[int]chunkPart{}
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
				parts.parts[chunk] = chunkPartOf(r.Value, r.Headers)
			} else if r.Offset == s.at {
				return nil, nil // another record has its place: the topic is another one
			}
			if len(parts.parts) == s.chunks {
				return t.decode(value, &parts)
			}
		}
		if next = got.Next; len(parts.parts) == 0 && next > s.at {
			return nil, nil
		}
	}
	return nil, nil
}

func (t *KeyedStates) decode(value string, parts *slotParts) (*Checkpoint, error) {
	c, err := parts.decode()
	if err != nil {
		return nil, t.unreadable(value, err)
	}
	if c.Owner != t.Owner && t.Owner != (Owner{}) {
		return nil, foreignByKey(modelkey.ID(t.ModelID, t.Partition, []byte(value)), t.Topic, c.Owner, t.Owner)
	}
	return c, nil
}

func (t *KeyedStates) unreadable(value string, err error) error {
	id, remedy := modelkey.ID(t.ModelID, t.Partition, []byte(value)), "set another snapshot.model_id"
	if errors.Is(err, errNewerFormat) {
		remedy = "use the newer binary; or " + remedy
	} else {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
		remedy = fmt.Sprintf("`lca-stream replay --model-id '%s'` learns this model alone again and puts it in its place; or %s", id, remedy)
	}
	return &Stop{Err: fmt.Errorf("checkpoint of model %q on topic %s: %w", id, t.Topic, err), Remedy: remedy}
}

// ErrDamaged is why a checkpoint cannot be read that no newer binary has written.
var ErrDamaged = errors.New("it is damaged")

// Outline is what the headers say of a checkpoint whose bytes are damaged: another one that takes its place goes on from there.
func (t *KeyedStates) Outline(value string, features []string) *Checkpoint {
	s := t.index[value]
	return &Checkpoint{
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
	} else if t.read, err = t.OpenAt(ctx, at); err != nil {
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
