package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/format"
)

// Partition names one partition of a topic. For files, Topic is the name without directories, and ID the file's
// place among them.
type Partition struct {
	Topic string
	ID    int32
}

// String returns "topic/id".
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.ID) }

// Compare orders partitions by topic and number, as cmp.Compare does.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.ID, q.ID))
}

// Offsets maps partitions to the next offset to read.
type Offsets map[Partition]int64

// Clone returns a copy that shares nothing.
func (o Offsets) Clone() Offsets {
	c := make(Offsets, len(o))
	for p, next := range o {
		c[p] = next
	}
	return c
}

// Partitions returns the partitions in order, by topic and number.
func (o Offsets) Partitions() []Partition {
	return slices.SortedFunc(maps.Keys(o), Partition.Compare)
}

// Claim says who has read up to where. For static assignment Member is "" and Generation -1. Group "" claims nothing:
// a sink then commits no offsets.
type Claim struct {
	Group      string
	Member     string
	InstanceID string
	Generation int32
	Next       Offsets
	Epochs     Epochs // leader epochs for Next, as far as they are known

	// Metadata is committed with the offset of each partition that it names: see Note.
	Metadata map[Partition]string
}

// Header is one header of a message: a Key and a Value. It is the type of the wire format, so that headers are never
// copied.
type Header = recordbatch.Header

// LastHeader returns the value of a message's last header of a name, or "": of headers that come twice the last counts,
// as with the lastHeader of Kafka's own client.
func LastHeader(headers []Header, name string) string { return string(LastHeaderValue(headers, name)) }

// LastHeaderValue is LastHeader for values that are no text. It returns nil if there is no such header, or if it is null.
func LastHeaderValue(headers []Header, name string) []byte {
	for _, h := range slices.Backward(headers) {
		if h.Key == name {
			return h.Value
		}
	}
	return nil
}

// Record is a record as a Fetcher gives it: its value is not decoded.
type Record = recordbatch.Record

// Message is one Kafka record (or one batch of a file) with its value decoded.
type Message struct {
	Partition Partition
	Offset    int64
	Time      time.Time
	Key       []byte // nil and empty differ, as in Kafka; valid until Batch.Release, like the fields below
	Value     []byte // the undecoded bytes
	Headers   []Header
	Record    arrow.Record  // all batches of the value as one; nil if Err is set or the value is null
	Err       *RecordError  // why the value could not be decoded
	Format    format.Format // of the value, where there is a Record
	Row       int           // number, from 1, of the first row in its file; 0: the message is of a topic
	Becomes   int64         // what KafkaConfig.Becomes says of it
}

// Identity returns what identifies the message's rows, together with its partition's number: the topic, the offset and
// the number of its first row. In a file the rows are counted from the beginning, so that neither its name nor its
// format nor how it is cut into batches decides what is learnt.
func (m *Message) Identity() (topic string, offset int64, first int) {
	if m.Row > 0 {
		return "", 0, m.Row - 1
	}
	return m.Partition.Topic, m.Offset, 0
}

// Tombstone reports whether the value is null: in a compacted topic it deletes what is stored under its key.
func (m *Message) Tombstone() bool { return m.Value == nil && m.Record == nil && m.Err == nil }

// Batch is the result of one Read: messages of one or more partitions, in order within each, and the claim that holds
// once all of them are processed. Next may be behind the last message.
//
// Messages, and all that they point to, belong to the reader until Release, which reuses their memory for a later
// batch. A batch that is never released keeps its memory.
type Batch struct {
	Messages []Message
	Claim    Claim
	Memory   int64 // about how many bytes the messages take, decoded ones included; 0: not known

	space *space // nil: the garbage collector owns the memory
}

// Rows returns the number of rows of all records.
func (b *Batch) Rows() (n int64) {
	for i := range b.Messages {
		if r := b.Messages[i].Record; r != nil {
			n += r.NumRows()
		}
	}
	return n
}

// Reserve waits until the process has memory for what is made of the batch, and reserves it until Release. Its caller
// must need no other memory of the process before Release. A batch of a file waits for nothing.
func (b *Batch) Reserve(ctx context.Context, bytes int64) (err error) {
	if b.space == nil {
		return nil
	}
	b.space.made.back(0)
	m := b.space.home.config.Memory
	b.space.made, err = m.made.waitFor(ctx, bytes)
	return err
}

// Release releases the memory of all messages.
func (b *Batch) Release() {
	for i := range b.Messages {
		if r := b.Messages[i].Record; r != nil {
			r.Release()
			b.Messages[i].Record = nil
		}
	}
	if b.space != nil {
		b.space.release(b.Messages)
		b.space, b.Messages = nil, nil
	}
}

// RecordError is a message that cannot be used. The pipeline sends it to the dead-letter topic, or stops.
type RecordError struct {
	Partition Partition
	Offset    int64
	Offsets   int64  // number of offsets from Offset on, if a whole batch cannot be read; 0: this record only
	Code      string // short and stable, such as "arrow_truncated": header lca-error-code and metric label
	Err       error
	Version   uint64 // of the model that has scored its rows, which are in their series although the message is set aside; 0: none has
}

// Error says where and why.
func (e *RecordError) Error() string {
	return fmt.Sprintf("source: %s/%d@%d: %s: %v", e.Partition.Topic, e.Partition.ID, e.Offset, e.Code, e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// The codes of whole batches that are set aside; format.Codes has those of single values. They end in the
// lca-error-code header of dead letters and in metric labels, so they never change.
const (
	CodeBatchInvalid = "batch_invalid" // records that contradict the format, or have an unsupported codec or format
	CodeBatchDamaged = "batch_damaged" // bytes differ from those that were produced
)

// ErrEnd is returned by Read when a bounded source (a file, a range of offsets) is exhausted.
var ErrEnd = errors.New("source: end of range")

// The first and the last time that RFC 3339 can write, in milliseconds since 1970: of the years 1 to 9999.
const (
	firstCalendarMilli = -62135596800000
	lastCalendarMilli  = 253402300799999
)

// Calendar returns a record's time for people and for JSON, in UTC: the nearest that RFC 3339 can write. Timestamps are any 64
// bits that a producer wrote: one of microseconds is of the year 55840, and encoding/json refuses that.
func Calendar(at time.Time) time.Time {
	return time.UnixMilli(min(max(at.UnixMilli(), firstCalendarMilli), lastCalendarMilli)).UTC()
}

// Stamp is the time of the message's rows, in ms since the epoch and of a year that Calendar knows; 0: they have none.
func (m *Message) Stamp() int64 {
	if m.Time.IsZero() || m.Time.UnixMilli() <= 0 {
		return 0
	}
	return Calendar(m.Time).UnixMilli()
}

// OnCalendar reports whether Calendar returns the time that it is given.
func OnCalendar(at time.Time) bool { return Calendar(at).UnixMilli() == at.UnixMilli() }
