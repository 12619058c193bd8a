package sink

import (
	"slices"
	"sync"
)

// spare keeps the buffers of requests that were answered for the next ones, of any producer of the process. A
// fresh buffer would have to be cleared, and is large enough to bring the collector on with each transaction.
type spare struct {
	mu    sync.Mutex
	free  [][]byte // in the order in which they came
	bytes int
}

const (
	// requestHead is room for what a request holds besides its batch.
	requestHead = 2 << 10

	// mostSpare bounds what is kept, and a quarter of it one buffer.
	mostSpare = 16 << 20
)

// take returns a buffer for a request with a batch of so many bytes: the smallest that has them, or a new one.
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
		return make([]byte, 0, size+size/8) // the next one may be a little larger
	}
	b := s.free[best]
	s.drop(best)
	return b
}

// give takes a buffer that is no longer used. Those that have not been used for longest make room for it.
func (s *spare) give(b []byte) {
	if cap(b) > mostSpare/4 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes+cap(b) > mostSpare {
		s.drop(0)
	}
	s.free = append(s.free, b)
	s.bytes += cap(b)
}

func (s *spare) drop(i int) {
	s.bytes -= cap(s.free[i])
	s.free = slices.Delete(s.free, i, i+1)
}
