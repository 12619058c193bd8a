package lca

import (
	"math"
	"math/bits"
)

// identities finds the slot of a record. Nearly all that is asked for is not there, which marks says in a
// few cycles: how many of the identities that are held hash to each of its places, eight for each of them.
type identities struct {
	slots map[uint64]int32
	marks []uint8
	shift int
}

func newIdentities(capacity int) identities {
	log := bits.Len(uint(8*max(capacity, 8) - 1))
	return identities{slots: make(map[uint64]int32), marks: make([]uint8, 1<<log), shift: 64 - log}
}

// of returns where the record of an identity is, or −1.
func (s *identities) of(id uint64) int32 {
	if s.marks[mix(id)>>s.shift] == 0 {
		return -1
	}
	if slot, ok := s.slots[id]; ok {
		return slot
	}
	return -1
}

// put says that an identity that is not held is in a slot.
func (s *identities) put(id uint64, slot int32) {
	if m := &s.marks[mix(id)>>s.shift]; *m < math.MaxUint8 {
		*m++
	}
	s.slots[id] = slot
}

// drop forgets an identity that is held. A full mark has lost count, and stays.
func (s *identities) drop(id uint64) {
	if m := &s.marks[mix(id)>>s.shift]; *m < math.MaxUint8 {
		*m--
	}
	delete(s.slots, id)
}
