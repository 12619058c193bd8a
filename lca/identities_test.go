package lca

import (
	"math/rand/v2"
	"testing"
)

// TestIdentities holds the marks against the plain map, also where they have lost count.
func TestIdentities(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, places := range []int{64, 1} {
		s := newIdentities(8)
		s.marks = s.marks[:places]
		if places == 1 {
			s.shift = 64 // all in one place: its mark overflows
		}
		held := map[uint64]int32{}
		for i := range int32(5000) {
			id := r.Uint64N(600)
			slot, ok := held[id]
			if !ok {
				slot = -1
			}
			if got := s.of(id); got != slot {
				t.Fatalf("%d places: identity %d is in slot %d, want %d", places, id, got, slot)
			}
			if ok {
				s.drop(id)
				delete(held, id)
			} else {
				s.put(id, i)
				held[id] = i
			}
		}
		if len(held) == 0 {
			t.Fatal("nothing was held")
		}
	}
}
