package sink

import "testing"

// Buffers serve the next request that they are large enough for, and all that are kept have one bound.
func TestSpareBuffers(t *testing.T) {
	const mostSpare = 16 << 20
	s := spare{most: mostSpare}
	large, small := s.take(1<<20), s.take(1<<10)
	s.give(large)
	s.give(small)
	if b := s.take(1 << 10); cap(b) != cap(small) {
		t.Errorf("a small request has %d bytes, the smallest buffer %d", cap(b), cap(small))
	}
	if b := s.take(1 << 10); cap(b) != cap(large) {
		t.Errorf("the next one has %d bytes", cap(b))
	}
	if b := s.take(1 << 10); cap(b) == cap(large) {
		t.Error("a buffer that is in use was given out")
	}
	s.give(make([]byte, 0, mostSpare))
	for range 100 {
		s.give(make([]byte, 0, mostSpare/8))
	}
	total := 0
	for _, b := range s.free {
		total += cap(b)
	}
	if total != s.bytes || total > mostSpare || len(s.free) != 8 {
		t.Errorf("%d bytes in %d buffers are kept, %d counted", total, len(s.free), s.bytes)
	}
}
