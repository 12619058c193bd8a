package source

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/format"
)

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
