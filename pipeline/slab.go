package pipeline

import "unsafe"

const (
	// slabLeast is how much a slab grows at least, and slabMost how many bytes are kept from batch to batch.
	slabLeast, slabMost = 8 << 10, 4 << 20

	// slabIdle is how many bytes are kept whether they are used or not.
	slabIdle = 256 << 10
)

// slab is memory for what a batch makes, which the next batch uses again: all of it has been put by
// then, or never will be. It does not keep what few batches need.
type slab[T any] struct {
	free []T // the part not in use
	all  []T // the whole memory, which is kept from batch to batch
	over int // elements that this batch needed in addition to all
}

// begin takes all of it back, and makes it large enough for a batch like the last one, up to most bytes.
func (s *slab[T]) begin(most int) {
	switch used := len(s.all) - cap(s.free); {
	case s.over > 0 && s.bytes(len(s.all)+s.over) <= most:
		s.all = make([]T, len(s.all)+s.over+s.over/8)
	case s.over == 0 && used < len(s.all)/8 && s.bytes(len(s.all)) > slabIdle:
		s.all = nil
	}
	s.free, s.over = s.all[:0], 0
}

// trim lets go of what the batch needed in addition to all. begin still knows how much that was, unless all of it
// together is more than most bytes.
func (s *slab[T]) trim(most int) {
	if s.over > 0 {
		s.free = s.all[:0]
	}
	if s.bytes(len(s.all)+s.over) > most {
		s.over = 0
	}
}

func (s *slab[T]) bytes(n int) int {
	var one T
	return n * int(unsafe.Sizeof(one))
}

// room returns an empty slice with room for size elements.
func (s *slab[T]) room(size int) []T {
	if cap(s.free) < size {
		n := max(size, slabLeast)
		s.free = make([]T, 0, n)
		s.over += n
	}
	return s.free
}

// use says that the first n of what room returned are in use now. If they have outgrown it, they are elsewhere.
func (s *slab[T]) use(n int) {
	if n <= cap(s.free) {
		s.free = s.free[n:n]
	}
}

// take is room and use of n elements.
func (s *slab[T]) take(n int) []T {
	all := s.room(n)[:n:n]
	s.use(n)
	return all
}
