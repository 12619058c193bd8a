package pool

import (
	"slices"
	"testing"
)

// TestPool holds which rows each kind keeps of 10,000: the newest, some of all, or some that are rather new; the same each time, and none twice.
func TestPool(t *testing.T) {
	const capacity, rows = 100, 10_000
	for _, c := range []struct {
		kind        Kind
		least, most float64 // mean age of a row
	}{
		{Sliding, 49.5, 49.5}, {Reservoir, 4000, 6000}, {Biased, 200, 500},
	} {
		fill := func() *Pool {
			p := New(c.kind, capacity, 1, 7)
			for i := range rows {
				for range 2 { // a record that is delivered again
					if slot := p.Offer(uint64(i)); slot >= 0 {
						p.Put(slot, uint64(i), Place{At: uint64(i)}, []float64{float64(i)})
					}
				}
			}
			return p
		}
		p := fill()
		age := 0.
		for slot, id := range p.IDs() {
			age += float64(rows-1-id) / capacity
			if p.Row(slot)[0] != float64(id) || p.Places[slot].At != id || p.Slot(id) != int32(slot) {
				t.Fatalf("%v: slot %d has row %v at %v for %d", c.kind, slot, p.Row(slot), p.Places[slot], id)
			}
		}
		if p.Len() != capacity || age < c.least || age > c.most {
			t.Errorf("%v: %d rows, %.1f old in the mean; want %v to %v", c.kind, p.Len(), age, c.least, c.most)
		}
		if again := fill(); !slices.Equal(again.IDs(), p.IDs()) {
			t.Errorf("%v: other rows the second time", c.kind)
		}
	}
}
