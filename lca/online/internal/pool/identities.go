package pool

import "math/bits"

// Mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose output bits all
// depend on all input bits.
func Mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below maps a uniform h to 0 … n−1, with a bias below n/2⁶⁴.
func below(h, n uint64) uint64 {
	hi, _ := bits.Mul64(h, n)
	return hi
}

// identities finds the slot of a record by its identity: a hash table of slots, open to the next free place
// (linear probing) and never more than a quarter full, so that the usual answer, that a record is not there,
// takes a look or two at memory that is small. The identities themselves are the pool's.
type identities struct {
	ids    []uint64 // of each slot
	places []int32  // slot + 1; 0 where free
	shift  int
}

func newIdentities(capacity int) identities {
	log := bits.Len(uint(4*max(capacity, 2) - 1))
	return identities{places: make([]int32, 1<<log), shift: 64 - log}
}

// start is where a search for an identity begins, and next where it goes on.
func (s *identities) start(id uint64) int { return int(Mix(id) >> s.shift) }
func (s *identities) after(at int) int    { return (at + 1) & (len(s.places) - 1) }

// slot returns the slot of a record, or −1.
func (s *identities) slot(id uint64) int32 {
	for at := s.start(id); ; at = s.after(at) {
		slot := s.places[at] - 1
		if slot < 0 || s.ids[slot] == id {
			return slot
		}
	}
}

// put gives a slot, which holds nothing or is the next new one, to an identity.
func (s *identities) put(slot int, id uint64) {
	if slot == len(s.ids) {
		s.ids = append(s.ids, id)
	}
	s.ids[slot] = id
	at := s.start(id)
	for s.places[at] != 0 {
		at = s.after(at)
	}
	s.places[at] = int32(slot) + 1
}

// drop forgets the identity in a slot. What comes after it moves up to the place that falls free, unless its
// search begins behind that place.
func (s *identities) drop(slot int) {
	free := s.start(s.ids[slot])
	for s.places[free] != int32(slot)+1 {
		free = s.after(free)
	}
	for at := s.after(free); s.places[at] != 0; at = s.after(at) {
		steps := len(s.places) - 1
		if home := s.start(s.ids[s.places[at]-1]); (at-home)&steps >= (at-free)&steps {
			s.places[free], free = s.places[at], at
		}
	}
	s.places[free] = 0
}
