package source

import (
	"sync"
	"sync/atomic"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/format"
)

// A stream reads about as much each time, so the memory of one response serves a later one, once
// every batch that holds some of its messages has been released. A batch that is never released keeps
// its memory for good: then the collector has it in the end, as it has all that is left over here.

// block is the memory of one response: its bytes, and the records that point into them.
type block struct {
	bytes   []byte
	records []recordbatch.Record
	users   atomic.Int32
	home    *blocks
	grant   grant // for what it holds beyond a lane's part
}

// size is what the block takes.
func (b *block) size() int { return cap(b.bytes) + cap(b.records)*recordbatch.RecordBytes }

// blocks keeps the unused ones, up to a bound in bytes for all together.
type blocks struct {
	mostBytes int

	mu    sync.Mutex
	free  []*block
	bytes int
}

// take returns a block with room for a response, for one user; a nil home makes one that is never kept.
func (h *blocks) take(size int) *block {
	b := h.spare(size)
	if b == nil {
		b = &block{home: h}
	}
	b.users.Store(1)
	if cap(b.bytes) < size {
		b.bytes = make([]byte, size+size/8) // the next one may be a little larger
	}
	b.bytes = b.bytes[:size]
	return b
}

// spare returns a block for so many bytes: one that has them, or else any.
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
	h.free[at] = h.free[n-1]
	h.free[n-1], h.free = nil, h.free[:n-1]
	h.bytes -= b.size()
	return b
}

// hold adds a user.
func (b *block) hold() { b.users.Add(1) }

// drop takes a user away, and keeps the block when that was the last one.
func (b *block) drop() {
	if b == nil || b.users.Add(-1) > 0 {
		return
	}
	b.grant.back(0)
	b.grant = grant{}
	h := b.home
	if h == nil || b.size() > h.mostBytes/8 {
		return // the rest would be kept for the sake of one
	}
	clear(b.records)
	h.mu.Lock()
	defer h.mu.Unlock()
	if size := b.size(); h.bytes+size <= h.mostBytes {
		h.free = append(h.free, b)
		h.bytes += size
	}
}

// space is what a batch of a Kafka source is made of.
type space struct {
	messages []Message
	arena    format.Arena // of their records
	blocks   []*block     // that messages point into
	home     *Kafka
	grant    grant // for a message that decodes to more than a reader's part
}

// hold keeps the block of a message that enters the batch.
func (s *space) hold(b *block) {
	if b == nil || len(s.blocks) > 0 && s.blocks[len(s.blocks)-1] == b {
		return
	}
	b.hold()
	s.blocks = append(s.blocks, b)
}

// release gives everything back, and keeps the slice of messages for the next batch.
func (s *space) release(messages []Message) {
	for _, b := range s.blocks {
		b.drop()
	}
	s.arena.Reset()
	s.grant.back(0)
	s.grant = grant{}
	clear(messages)
	clear(s.blocks)
	s.messages, s.blocks = messages[:0], s.blocks[:0]
	s.home.mutex.Lock()
	defer s.home.mutex.Unlock()
	if s.home.space == nil {
		s.home.space = s
	}
}

// takeSpace returns the space of a batch that was released, or a new one.
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
