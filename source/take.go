package source

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/format"
)

// decodedPerByte bounds the decoded size of a batch, as a multiple of GatherBytes. A small JSON message decodes to a
// hundred times its size, and a transaction should hold more than a few of them.
const decodedPerByte = 4

// madePerPart is how many times the memory of what is made of batches is that of batches, see Memory: a message that becomes more than that
// many times as much as it takes counts for what it becomes.
const madePerPart = 4

// messageBytes is what a message takes in addition to its bytes, including most of what is derived from it.
const messageBytes = int(unsafe.Sizeof(Message{})) + 1<<10

// noLimit is the room of a message that only the limits of its format bound.
const noLimit = 1 << 40

// noWait is a context in which nothing is waited for.
var noWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// taken is the size of a batch so far.
type taken struct {
	bytes  int // of the undecoded messages
	memory int // including what they decode to and what is derived from them
}

// take moves messages from the portion to the batch until that has its full size. For a range with an end it moves
// only one, because then the partitions take turns. full: the next message has no room.
func (k *Kafka) take(ctx context.Context, b *Batch, p *portion, size *taken, part int) (full bool, err error) {
	if k.config.End == nil {
		for !p.empty() && size.bytes < k.config.GatherBytes && size.memory < part && !full && err == nil {
			_, full, err = k.takeOne(ctx, b, p, size, part-size.memory)
		}
		k.moveTo(p, p.next())
		p.done()
		return full, err
	}
	next, _, err := k.takeOne(ctx, b, p, size, noLimit)
	if err != nil {
		return false, err
	}
	if p.last && p.empty() {
		next = p.after
	}
	p.done()
	k.moveTo(p, next) // not p.next(), which depends on how records were cut into responses
	return false, nil
}

// takeOne moves one message and returns the offset behind it. full: it does not fit into the room and has to wait for
// the next batch. A message that fits into no batch waits until there is memory for it.
func (k *Kafka) takeOne(ctx context.Context, b *Batch, p *portion, size *taken, room int) (next int64, full bool, err error) {
	r, rejected := p.peek()
	if r == nil {
		p.pop()
		size.add(k.takeRejected(b, p, rejected), 0)
		return rejected.Last + 1, false, nil
	}
	b.Messages = append(b.Messages, Message{})
	if len(b.Messages) == 1 || k.config.End != nil { // it may wait for a schema
		k.askAhead(p)
	}
	fits, err := k.message(ctx, b, p.partition, r, int64(room))
	if !fits && err == nil && len(b.Messages) == 1 {
		fits, err = k.alone(ctx, b, p.partition, r)
	}
	if !fits {
		b.Messages = b.Messages[:len(b.Messages)-1]
		return r.Offset, true, err
	}
	p.pop()
	b.space.hold(p.block)
	decoded := b.space.arena.Spent()
	if m := &b.Messages[len(b.Messages)-1]; k.config.Becomes != nil && m.Record != nil {
		m.Becomes = k.config.Becomes(m)
		decoded = max(decoded, m.Becomes/madePerPart)
	}
	size.add(recordbatch.RecordSize(r), int(decoded))
	return r.Offset + 1, false, nil
}

// mostAsked bounds the schemas that are asked for at once.
const mostAsked = 100

// askAhead asks for the schemas of the messages behind the next one as well, if that has to wait for its own. A registry that does not know an
// id is asked for seconds, and one after the other a few wrong messages would hold up a partition.
func (k *Kafka) askAhead(p *portion) {
	d := k.config.Decoder
	if d == nil || d.Ask(p.records[0].Value) {
		return
	}
	asked := 1
	for _, r := range p.records[1:] {
		if !d.Ask(r.Value) {
			asked++
		}
		if asked == mostAsked {
			return
		}
	}
}

func (t *taken) add(bytes, decoded int) {
	t.bytes += bytes
	t.memory += bytes + decoded + messageBytes
}

// alone decodes a message that is larger than a reader's part, as the only one of its batch.
func (k *Kafka) alone(ctx context.Context, b *Batch, p Partition, r *recordbatch.Record) (bool, error) {
	m := k.config.Memory
	g, err := m.messages.waitFor(ctx, m.messages.all)
	if err != nil {
		return false, err
	}
	fits, err := k.message(ctx, b, p, r, noLimit)
	g.back(b.space.arena.Spent())
	b.space.grant = g
	return fits, err
}

// takeRejected moves a batch that cannot be read, as one message with all its bytes, and returns their number.
func (k *Kafka) takeRejected(b *Batch, p *portion, r *Rejected) int {
	m := Message{Partition: p.partition, Offset: r.Offset, Value: r.Raw, Err: r.RecordError}
	if r.Timestamp > 0 {
		m.Time = time.UnixMilli(r.Timestamp)
	}
	b.space.hold(p.block)
	b.Messages = append(b.Messages, m)
	return len(r.Raw)
}

// message decodes a record as the last message of the batch, unless it takes more memory than there is room for, or
// would let what came before it wait for a schema. An error means that it cannot be decoded now.
func (k *Kafka) message(ctx context.Context, b *Batch, p Partition, r *recordbatch.Record, room int64) (fits bool, err error) {
	arena := &b.space.arena
	arena.Begin(room)
	m := &b.Messages[len(b.Messages)-1]
	m.Partition, m.Offset, m.Time, m.Key, m.Value = p, r.Offset, time.UnixMilli(r.Timestamp), r.Key, r.Value
	m.Headers = r.Headers
	if k.config.Decoder == nil || r.Value == nil {
		return true, nil
	}
	if len(b.Messages) > 1 && k.config.End == nil {
		ctx = noWait // what the batch has already does not wait for a schema: the message begins the next one
	}
	m.Record, m.Format, err = k.config.Decoder.DecodeIn(ctx, arena, r.Value, LastHeader(r.Headers, "content-type"))
	var cause *format.Error
	switch {
	case err == nil:
		return true, nil
	case arena.Short(err):
		return false, nil // for lack of room, or for good
	case !errors.As(err, &cause) && ctx == noWait && errors.Is(err, context.Canceled):
		return false, nil
	case !errors.As(err, &cause):
		return false, err
	}
	m.Err = &RecordError{Partition: p, Offset: r.Offset, Code: cause.Code, Err: cause.Err}
	return true, nil
}
