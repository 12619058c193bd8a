package pool

import (
	"slices"
	"testing"
)

// TestPool holds which rows are kept of 10,000: some that are rather new; the same each time, and none twice.
func TestPool(t *testing.T) {
	const capacity, rows = 100, 10_000
	fill := func() *Pool {
		p := New(capacity, 1)
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
			t.Fatalf("slot %d has row %v at %v for %d", slot, p.Row(slot), p.Places[slot], id)
		}
	}
	if want := capacity / (Entry * (2 - Entry)); p.Len() != capacity || age < 0.75*want || age > 1.25*want { // each has two chances to enter
		t.Errorf("%d rows, %.1f old in the mean; want about %.0f", p.Len(), age, want)
	}
	if again := fill(); !slices.Equal(again.IDs(), p.IDs()) {
		t.Error("other rows the second time")
	}
}
