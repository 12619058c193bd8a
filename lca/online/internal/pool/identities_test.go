package pool

import (
	"math/rand/v2"
	"testing"
)

// TestIdentities holds the table against a plain map, also where all searches begin at one place, at the
// table's end, and where two slots hold the same identity, as those of a damaged state may.
func TestIdentities(t *testing.T) {
	const capacity, known = 40, 600
	r := rand.New(rand.NewPCG(1, 2))
	for _, shift := range []int{0, 3, 64} {
		s := newIdentities(capacity)
		if s.shift += shift; s.shift > 64 {
			s.shift = 64
		}
		slots, held := make([]uint64, capacity), map[uint64]int{}
		for slot := range slots {
			id := r.Uint64N(known)
			for held[id] > 0 {
				id = r.Uint64N(known)
			}
			slots[slot], held[id] = id, slot+1
			s.put(slot, id)
		}
		for range 20_000 {
			id := r.Uint64N(known)
			if got, want := s.slot(id), int32(held[id]-1); got != want {
				t.Fatalf("shift by %d: identity %d is in slot %d, want %d", shift, id, got, want)
			}
			if held[id] > 0 {
				continue
			}
			slot := r.IntN(capacity)
			s.drop(slot)
			delete(held, slots[slot])
			s.put(slot, id)
			slots[slot], held[id] = id, slot+1
		}
	}
	s := newIdentities(capacity)
	s.put(0, 7)
	s.put(1, 7)
	s.drop(0)
	if got := s.slot(7); got != 1 {
		t.Errorf("the second of two slots with one identity is slot %d, want 1", got)
	}
}
