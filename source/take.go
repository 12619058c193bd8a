package source

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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

// A stream reads about as much each time, so the memory of one response is used for a later one, once every batch
// that holds some of its messages has been released. The memory of a batch that is never released goes to the garbage
// collector, like everything that is left over here.

// block is the memory of one response: its bytes, and the records that point into them.
type block struct {
	bytes   []byte
	records []recordbatch.Record
	users   atomic.Int32
	home    *blocks
	grant   grant // for memory beyond a lane's part
}

// size returns the memory of the block in bytes.
func (b *block) size() int { return cap(b.bytes) + cap(b.records)*recordbatch.RecordBytes }

// blocks keeps unused blocks, up to a bound in bytes for all together.
type blocks struct {
	mostBytes int

	mu    sync.Mutex
	free  []*block // in the order of their return
	bytes int
}

// take returns a block with room for a response, for one user. With a nil home the block is not kept after use.
func (h *blocks) take(size int) *block {
	b := h.spare(size)
	if b == nil {
		b = &block{home: h}
	}
	b.users.Store(1)
	if cap(b.bytes) < size {
		b.bytes = make([]byte, size+size/8) // the next response may be a little larger
	}
	b.bytes = b.bytes[:size]
	return b
}

// spare returns a block with at least size bytes, or else any block.
func (h *blocks) spare(size int) *block {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.free)
	if n == 0 {
		return nil
	}
	at := n - 1
	for i := n - 1; i >= 0; i-- {
		if cap(h.free[i].bytes) >= size {
			at = i
			break
		}
	}
	b := h.free[at]
	h.forget(at)
	return b
}

func (h *blocks) forget(at int) {
	h.bytes -= h.free[at].size()
	h.free = slices.Delete(h.free, at, at+1)
}

// hold adds a user.
func (b *block) hold() { b.users.Add(1) }

// drop removes a user, and keeps the block after the last one. Blocks that were idle longest make room for it.
func (b *block) drop() {
	if b == nil || b.users.Add(-1) > 0 {
		return
	}
	b.grant.back(0)
	b.grant = grant{}
	h := b.home
	if h == nil || b.size() > h.mostBytes {
		return
	}
	clear(b.records)
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.bytes+b.size() > h.mostBytes {
		h.forget(0)
	}
	h.free = append(h.free, b)
	h.bytes += b.size()
}

// space is the memory of a batch of a Kafka source.
type space struct {
	messages []Message
	arena    format.Arena // of the messages' records
	blocks   []*block     // blocks that messages point into
	home     *Kafka
	grant    grant // for a message that decodes to more than a reader's part
	made     grant // for what is made of the batch
}

// hold keeps the block of a message that is in the batch.
func (s *space) hold(b *block) {
	if b == nil || len(s.blocks) > 0 && s.blocks[len(s.blocks)-1] == b {
		return
	}
	b.hold()
	s.blocks = append(s.blocks, b)
}

// release returns all memory, and keeps the slice of messages for the next batch.
func (s *space) release(messages []Message) {
	for _, b := range s.blocks {
		b.drop()
	}
	s.arena.Reset()
	s.grant.back(0)
	s.made.back(0)
	s.grant, s.made = grant{}, grant{}
	clear(messages)
	clear(s.blocks)
	s.messages, s.blocks = messages[:0], s.blocks[:0]
	s.home.mutex.Lock()
	defer s.home.mutex.Unlock()
	if s.home.space == nil {
		s.home.space = s
	}
}

// takeSpace returns the space of a released batch, or a new one.
func (k *Kafka) takeSpace() *space {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	s := k.space
	k.space = nil
	if s == nil {
		s = &space{home: k}
	}
	return s
}
