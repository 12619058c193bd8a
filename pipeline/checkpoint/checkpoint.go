// Package checkpoint is the bytes of a learner's state on the checkpoint topic, and how they are read back.
//
// Begin with [Checkpoints]: it makes the records of a [Checkpoint], which a learner puts with the offsets that it stands for, and loads the
// newest one. A model has one [Owner], a group and a topic; [Checkpoints.Own] claims it. [ReadBack] reads a topic of ours up to its high
// watermark, where a missed record would make the program do its work again with another outcome.
//
// A checkpoint is at most [CheckpointLimit] bytes. One that is damaged, or of a newer format, is an error and never a panic; no older one is
// used in its place.
package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// Checkpoint is everything that a learner needs to go on as if it had never stopped (invariant 2). It is written in
// the same transaction as the offsets that it stands for.
//
// Its bytes, little endian; a string or []byte is a uint32 length and that many bytes:
//
//	0  magic "LCAC"
//	4  uint16 format = 3, or 4 if there is an ordinal, or 5 if there is a base too, or 6 if there are positions of commands; 1 of the first edition
//	6  uint64 sequence   number of this checkpoint, grows by one
//	   uint64 snapshots  snapshots written so far: the next slot is snapshots mod keep
//	   uint64 published  version of the newest snapshot (any trigger)
//	   uint64 parent     version of the newest snapshot that was due by its rows
//	   uint64 ordinal    rows of the model so far; only from format 4 on, of models by key
//	   uint64 base       version at which the model was retired before it began again; only from format 5 on
//	   string model id · string config digest
//	   string group · string topic       whose it is; not in format 1
//	   uint32 n, n × string            feature names in order
//	   uint32 n, n × (string topic, int32 partition, int64 next)   sorted
//	   uint32 n, n × (string topic, int32 partition, int64 end)    History, sorted; not in format 1
//	   uint32 n, n × (string topic, int32 partition, int64 next)   Commands, sorted; only in format 6
//	   uint32 n, n × (uint32 slot, uint32 model chunks, uint32 neighbour chunks)   sorted
//	   []byte rows of the unfinished minibatch (minibatch.Batcher)
//	   []byte learner (online.Learner)
//	   uint32 CRC-32C of everything before
type Checkpoint struct {
	Sequence  uint64
	Snapshots uint64
	Published uint64
	Parent    uint64
	Ordinal   uint64 // number of the model's rows, learnt or not, of a model by key; 0 for others, whose rows are told apart by offset
	Base      uint64 // of a model by key that was retired and has come back: versions go on from there; otherwise 0
	ModelID   string
	Digest    string
	Owner     Owner
	Features  []string
	Offsets   source.Offsets
	History   source.Offsets // end of the backlog that is learnt before the first model is published; nil once it is
	Commands  source.Offsets // of the topic of alarms: commands before them are followed; nil: no learner of this model has read any
	Slots     snapshot.Slots
	Batcher   []byte
	Learner   []byte

	Format int // format of the bytes that it was read from
}

const (
	CheckpointMagic  = "LCAC"
	firstFormat      = 1 // of the first edition
	CheckpointFormat = 3
	keyedFormat      = 4 // with an ordinal
	returnedFormat   = 5 // with a base
	commandedFormat  = 6 // with positions of commands
	NewestFormat     = commandedFormat
)

// CheckpointLimit is the largest size of a checkpoint in bytes. Because of it a damaged length allocates little and
// no sum of lengths overflows.
const CheckpointLimit = 1 << 30

// CheckpointBytes returns the size of a checkpoint with the given pool: a lower bound, which is the rows of the pool,
// an estimate, which adds the matrices and half of what the data's choice adds while it compares, and another for a learner that
// has collected all the former metrics that it keeps.
func CheckpointBytes(neighbours, columns int) (least, about, later int) {
	const besides = 20    // per neighbour: its identity, its weight, …
	const matrices = 12   // of float64, columns by columns; fewer before the first fit
	const compared = 1000 // rows of float64 by which a choice is judged, at most
	least = 4 * neighbours * columns
	about = least + besides*neighbours + 8*matrices*columns*columns + 8*min(neighbours/2, compared)*columns/2 + recent.StateBytes(columns)
	return least, about, about + online.FormerBytes(neighbours, columns)
}

// ErrNewerFormat reports sound bytes that a newer binary has written.
var ErrNewerFormat = errors.New("its format is newer than this binary's")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writes is the format of the bytes that AppendBinary appends: the oldest that holds what there is.
func (c *Checkpoint) writes() uint16 {
	switch {
	case len(c.Commands) > 0:
		return commandedFormat
	case c.Base > 0:
		return returnedFormat
	case c.Ordinal > 0:
		return keyedFormat
	}
	return CheckpointFormat
}

// Size returns the number of bytes that AppendBinary appends.
func (c *Checkpoint) Size() int {
	const fixed = 4 + 2 + 4*8 + 4*4 + 4*4 + 2*4 + 4 // magic, format, counters, lengths of strings, counts, lengths of bytes, checksum
	size := fixed + len(c.ModelID) + len(c.Digest) + len(c.Owner.Group) + len(c.Owner.Topic) + len(c.Batcher) + len(c.Learner) + 12*len(c.Slots)
	switch c.writes() {
	case keyedFormat:
		size += 8
	case returnedFormat:
		size += 16
	case commandedFormat:
		size += 20
	}
	for _, f := range c.Features {
		size += 4 + len(f)
	}
	for _, o := range c.positions() {
		for p := range o {
			size += 16 + len(p.Topic)
		}
	}
	return size
}

// positions are those that are written, in their order.
func (c *Checkpoint) positions() []source.Offsets {
	all := []source.Offsets{c.Offsets, c.History}
	if c.writes() >= commandedFormat {
		all = append(all, c.Commands)
	}
	return all
}

// LargeCheckpoint is the fault of a checkpoint that could never be read again.
func LargeCheckpoint(modelID string, size int) error {
	return &reject.Stop{
		Err:    fmt.Errorf("a checkpoint of model %q takes %d bytes, and %d is the most", modelID, size, CheckpointLimit),
		Remedy: "set fewer lca.neighbours, or name fewer source.features: neighbours times columns decide",
	}
}

// AppendBinary appends the bytes drawn above.
func (c *Checkpoint) AppendBinary(b []byte) ([]byte, error) {
	size := c.Size()
	if size > CheckpointLimit { // it could never be read again
		return nil, LargeCheckpoint(c.ModelID, size)
	}
	b = slices.Grow(b, size)
	start := len(b)
	le := binary.LittleEndian
	str := func(s string) { b = append(le.AppendUint32(b, uint32(len(s))), s...) }
	b = append(b, CheckpointMagic...)
	format := c.writes()
	b = le.AppendUint16(b, format)
	for _, v := range []uint64{c.Sequence, c.Snapshots, c.Published, c.Parent} {
		b = le.AppendUint64(b, v)
	}
	if format >= keyedFormat {
		b = le.AppendUint64(b, c.Ordinal)
	}
	if format >= returnedFormat {
		b = le.AppendUint64(b, c.Base)
	}
	str(c.ModelID)
	str(c.Digest)
	str(c.Owner.Group)
	str(c.Owner.Topic)
	b = le.AppendUint32(b, uint32(len(c.Features)))
	for _, f := range c.Features {
		str(f)
	}
	for _, o := range c.positions() {
		b = le.AppendUint32(b, uint32(len(o)))
		for _, p := range o.Partitions() {
			str(p.Topic)
			b = le.AppendUint32(b, uint32(p.ID))
			b = le.AppendUint64(b, uint64(o[p]))
		}
	}
	b = le.AppendUint32(b, uint32(len(c.Slots)))
	for slot := range sortedKeys(c.Slots) {
		n := c.Slots[slot]
		b = le.AppendUint32(le.AppendUint32(le.AppendUint32(b, uint32(slot)), uint32(n.Model)), uint32(n.Neighbours))
	}
	for _, state := range [][]byte{c.Batcher, c.Learner} {
		b = append(le.AppendUint32(b, uint32(len(state))), state...)
	}
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli)), nil
}

// UnmarshalBinary is the inverse. A damaged or foreign checkpoint gives an error, never a panic.
func (c *Checkpoint) UnmarshalBinary(b []byte) error {
	if len(b) < 10 || len(b) > CheckpointLimit || string(b[:4]) != CheckpointMagic {
		return errors.New("pipeline: these bytes are not a checkpoint")
	}
	if err := ReadableFormat(b); err != nil {
		return err
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return fmt.Errorf("pipeline: checkpoint is damaged: CRC-32C %08x, want %08x", got, sum)
	}
	r := &reader{b: body[4:]}
	d := Checkpoint{Slots: snapshot.Slots{}, Format: int(r.uint16())}
	if d.Format != firstFormat && d.Format < CheckpointFormat {
		return fmt.Errorf("pipeline: format %d of checkpoints is of a build that was never released", d.Format)
	}
	d.Sequence, d.Snapshots, d.Published, d.Parent = r.uint64(), r.uint64(), r.uint64(), r.uint64()
	if d.Format >= keyedFormat {
		d.Ordinal = r.uint64()
	}
	if d.Format >= returnedFormat {
		d.Base = r.uint64()
	}
	d.ModelID, d.Digest = string(r.bytes()), string(r.bytes())
	if d.Format != firstFormat {
		d.Owner = Owner{Group: string(r.bytes()), Topic: string(r.bytes())}
	}
	for range r.count(4) {
		d.Features = append(d.Features, string(r.bytes()))
	}
	d.Offsets = r.offsets()
	if d.Format != firstFormat {
		if d.History = r.offsets(); len(d.History) == 0 {
			d.History = nil
		}
	}
	if d.Format >= commandedFormat {
		d.Commands = r.offsets()
	}
	for range r.count(12) {
		slot := int(r.uint32())
		d.Slots[slot] = snapshot.Chunks{Model: int(r.uint32()), Neighbours: int(r.uint32())}
	}
	d.Batcher, d.Learner = slices.Clone(r.bytes()), slices.Clone(r.bytes())
	if r.short || len(r.b) != 0 {
		return errors.New("pipeline: checkpoint has a wrong length")
	}
	*c = d
	return nil
}

// ReadableFormat refuses the bytes of a newer binary by their first fields, which no later format changes.
func ReadableFormat(b []byte) error {
	if len(b) < 6 || string(b[:4]) != CheckpointMagic {
		return nil // damage, which is found later
	}
	if f := binary.LittleEndian.Uint16(b[4:]); f > NewestFormat {
		return fmt.Errorf("%w: format %d, and this one reads up to %d", ErrNewerFormat, f, NewestFormat)
	}
	return nil
}

// reader takes fields from the front of a slice. Once the slice is too short, it returns zeros and remembers the
// fault.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.b, r.short = nil, true
		return make([]byte, 8)[:min(n, 8)]
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

func (r *reader) uint16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }

func (r *reader) uint32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }

func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) bytes() []byte { return r.take(int(r.uint32())) }

func (r *reader) offsets() source.Offsets {
	o := source.Offsets{}
	for range r.count(16) {
		p := source.Partition{Topic: string(r.bytes()), ID: int32(r.uint32())}
		o[p] = int64(r.uint64())
	}
	return o
}

// count reads the number of elements that follow, each at least size bytes.
func (r *reader) count(size int) int {
	n := int(r.uint32())
	if n > len(r.b)/size {
		r.b, r.short = nil, true
		return 0
	}
	return n
}

func sortedKeys(m snapshot.Slots) iter.Seq[int] {
	return slices.Values(slices.Sorted(maps.Keys(m)))
}

// ChunkBytes keeps a checkpoint's chunks below the 1 MiB that a broker takes by default.
const ChunkBytes = 900_000

// Checkpoints is the checkpoint topic of one model. It cuts a checkpoint into messages and finds the newest whole one
// again. Two slots alternate, so that the former checkpoint stays whole while the next one is written. The same
// transaction deletes a slot's surplus chunks with tombstones.
type Checkpoints struct {
	ReadBack // of the topic
	ModelID  string
	Owner    Owner                                // the pipeline that the model must belong to; zero = any
	Stable   func(context.Context) (int64, error) // the topic's last stable offset, for Peek
	By       string                               // model.by, for a model of one value
	OneSlot  bool                                 // each checkpoint takes the former one's place: for readers that go by offset

	Chunks [2]int  // number of chunks in each slot, as last written or read
	old    [2]bool // the slot holds a checkpoint of the first format
	ahead  *Found  // what Own has read; the Load that follows need not read it again
}

// TopicReader reads the committed records of one partition in order.
type TopicReader interface {
	Fetch(context.Context) (source.Fetched, error)
}

// Messages cuts c into chunks with keys MODEL_ID/SLOT/CHUNK.
//
// The first checkpoint of the present format also deletes the one of the first format in the other slot. An older
// binary ignores what it cannot read and would go on from that older checkpoint. So it finds nothing, and refuses to
// start.
func (t *Checkpoints) Messages(c *Checkpoint) ([]sink.Message, error) {
	data, err := c.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	slot := int(c.Sequence % 2)
	if t.OneSlot {
		slot = 0
	}
	n := (len(data) + ChunkBytes - 1) / ChunkBytes
	msgs := make([]sink.Message, 0, max(n, t.Chunks[slot]))
	for i := range n {
		part := data[i*ChunkBytes : min((i+1)*ChunkBytes, len(data))]
		msgs = append(msgs, sink.Message{
			Topic: t.Topic, Key: t.Key(slot, i), Value: part,
			Headers: []source.Header{
				reject.Text("lca-model-id", t.ModelID),
				reject.Text("lca-checkpoint", strconv.FormatUint(c.Sequence, 10)),
				reject.Text("lca-chunk", fmt.Sprintf("%d/%d", i, n)),
				reject.Text("lca-crc32c", ChecksumText(part)),
			},
		})
	}
	msgs = t.Delete(msgs, slot, n)
	if other := 1 - slot; t.old[other] {
		msgs = t.Delete(msgs, other, 0)
	}
	t.old[slot] = false
	return msgs, nil
}

// Delete appends tombstones for a slot's chunks from number n on.
func (t *Checkpoints) Delete(msgs []sink.Message, slot, n int) []sink.Message {
	for i := n; i < t.Chunks[slot]; i++ {
		msgs = append(msgs, sink.Message{Topic: t.Topic, Key: t.Key(slot, i)})
	}
	t.Chunks[slot], t.old[slot] = n, false
	return msgs
}

// Key is the key of a chunk.
func (t *Checkpoints) Key(slot, chunk int) []byte {
	return fmt.Appendf(nil, "%s/%d/%d", t.ModelID, slot, chunk)
}

// ChecksumText is the value of the header lca-crc32c of a chunk.
func ChecksumText(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

// Load returns the newest whole checkpoint, or nil if there is none. The sink of the model must be open, because
// opening it settles what a former learner left unfinished.
func (t *Checkpoints) Load(ctx context.Context) (*Checkpoint, error) {
	f := t.ahead
	t.ahead = nil
	if f == nil {
		var err error
		if f, err = t.read(ctx, t.End); err != nil {
			return nil, err
		}
	}
	t.Chunks, t.old = f.chunks(), f.old()
	return t.Newest(f)
}

// Peek is Load before the sink is open. It fences no process and waits for no open transaction, so a checkpoint that is
// being written, or lies behind an open transaction, is not seen.
func (t *Checkpoints) Peek(ctx context.Context) (*Checkpoint, error) {
	f, err := t.read(ctx, t.Stable)
	if err != nil {
		return nil, err
	}
	return t.Newest(f)
}

// Newest returns the newest checkpoint, or an error if it belongs to another pipeline.
func (t *Checkpoints) Newest(f *Found) (*Checkpoint, error) {
	if f.value != "" {
		return nil, ValuesThere(t.Topic, f.value, t.ModelID)
	}
	c, err := f.newest()
	if err == nil {
		err = t.mine(f.owner(c))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// read finds what the topic holds of the model. Mostly its last records suffice.
func (t *Checkpoints) read(ctx context.Context, end func(context.Context) (int64, error)) (*Found, error) {
	back := t.ReadBack
	back.End = end
	f := &Found{Model: t.ModelID, Topic: t.Topic}
	err := back.ReadTail(ctx, f.reset, func(got *source.Fetched) error {
		for _, r := range got.Records {
			f.Take(string(r.Key), r.Value, r.Headers)
		}
		return nil
	}, f.enough)
	return f, err
}

// Move returns the messages of the checkpoint c, as Load returned it, with other offsets: the same model goes on
// there. It returns none without a checkpoint.
func (t *Checkpoints) Move(c *Checkpoint, to source.Offsets) ([]sink.Message, error) {
	if c == nil {
		return nil, nil
	}
	moved := *c
	moved.Sequence++
	moved.Offsets = c.Offsets.Clone()
	maps.Copy(moved.Offsets, to)
	return t.Messages(&moved)
}

// One model for all rows and a model for each value do not share topics: each would take no notice of what the other has learnt.

// OfValue reports whether an id is that of a value's model, with a base id.
func OfValue(id, base string) bool {
	of, _, _, ok := modelkey.Split(id)
	return ok && of == base
}

// ValuesThere refuses a topic for the model of all rows that holds models of values.
func ValuesThere(topic, id, base string) error {
	return &reject.Stop{
		Err:    fmt.Errorf("topic %s holds model %q, which is that of one value of model.by, and model %q is one for all rows", topic, id, base),
		Remedy: "set model.by as it was, or another snapshot.topic and checkpoint.topic, or another snapshot.model_id, for the model of all rows",
	}
}

// OtherBy refuses a topic whose models are of values that were found elsewhere in the messages: equal values need not be of the same machine. former
// is "" where that is not known.
func OtherBy(topic, id, former string, by modelkey.By) error {
	if former == "" || former == by.String() {
		return nil
	}
	return &reject.Stop{
		Err:    fmt.Errorf("topic %s holds model %q of model.by: %s, and model.by is %s", topic, id, former, by),
		Remedy: "set model.by as it was, or another snapshot.model_id, for models of their own",
	}
}

// AllRowsThere refuses a topic for models of values that holds the model of all rows.
func AllRowsThere(topic, id string) error {
	return &reject.Stop{
		Err:    fmt.Errorf("topic %s holds model %q, which is one for all rows, and model.by is set", topic, id),
		Remedy: "set another checkpoint.topic and snapshot.topic for the models by key, and make them with `lca-stream topics init`, or set model.by: none",
	}
}
