package source

import (
	"sync"
	"sync/atomic"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// A stream reads about as much each time, so the memory of one response serves a later one, once
// every batch that holds some of its messages has been released. A batch that nobody releases keeps
// its memory for good: then the collector has it in the end, as it has all that is left over here.

// block is the memory of one response: its bytes, and the records that point into them.
type block struct {
	bytes   []byte
	records []recordbatch.Record
	users   atomic.Int32
	home    *blocks
}

// blocks keeps those that nobody uses, at most so many of at most so many bytes.
type blocks struct {
	most, mostBytes int

	mu   sync.Mutex
	free []*block
}

// take returns a block with room for a response, for one user; a nil home makes one that is never kept.
func (h *blocks) take(size int) *block {
	b := h.spare()
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

func (h *blocks) spare() *block {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.free)
	if n == 0 {
		return nil
	}
	b := h.free[n-1]
	h.free = h.free[:n-1]
	return b
}

// hold adds a user.
func (b *block) hold() { b.users.Add(1) }

// drop takes a user away, and keeps the block when that was the last one.
func (b *block) drop() {
	if b == nil || b.users.Add(-1) > 0 || b.home == nil || cap(b.bytes) > b.home.mostBytes {
		return
	}
	clear(b.records)
	h := b.home
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.free) < h.most {
		h.free = append(h.free, b)
	}
}

// space is what a batch of a Kafka source is made of.
type space struct {
	messages []Message
	flats    []*flat
	used     int      // of flats
	blocks   []*block // that messages point into
	home     *Kafka
}

// flat returns one that is free until the batch is released.
func (s *space) flat() *flat {
	if s == nil {
		return new(flat)
	}
	if s.used == len(s.flats) {
		more := make([]flat, 64)
		for i := range more {
			s.flats = append(s.flats, &more[i])
		}
	}
	s.used++
	return s.flats[s.used-1]
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
	for _, f := range s.flats[:s.used] {
		*f = flat{}
	}
	clear(messages)
	clear(s.blocks)
	s.messages, s.blocks, s.used = messages[:0], s.blocks[:0], 0
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
