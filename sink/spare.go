package sink

import (
	"slices"
	"sync"
)

// spare keeps the buffers of answered requests for later ones, of all producers of the process. A new buffer would
// have to be cleared, and is large enough that each transaction would bring on a garbage collection.
type spare struct {
	most int // bytes that are kept

	mu    sync.Mutex
	free  [][]byte // in the order of their return
	bytes int
}

// requestHead is room for what a request holds besides its batch.
const requestHead = 2 << 10

// take returns a buffer for a request with a batch of the given size: the smallest one that is large enough, or a new
// one.
func (s *spare) take(batch int) []byte {
	size := batch + requestHead
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for i, b := range s.free {
		if cap(b) >= size && (best < 0 || cap(b) < cap(s.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]byte, 0, size+size/8) // the next batch may be a little larger
	}
	b := s.free[best]
	s.drop(best)
	return b
}

// give returns a buffer that is no longer used. The buffers that were idle longest make room for it.
func (s *spare) give(b []byte) {
	if cap(b) > s.most {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes+cap(b) > s.most {
		s.drop(0)
	}
	s.free = append(s.free, b)
	s.bytes += cap(b)
}

func (s *spare) drop(i int) {
	s.bytes -= cap(s.free[i])
	s.free = slices.Delete(s.free, i, i+1)
}
