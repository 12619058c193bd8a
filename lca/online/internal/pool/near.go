package pool

import (
	"cmp"
	"slices"
)

// Near finds the neighbours that are near in time.
type Near struct {
	order  []int32    // slots, by partition and time
	window [][2]int32 // of each row, where its own are in order
	spans  []span     // by partition
}

// span is the time that a partition's rows take up.
type span struct {
	partition int32
	from, to  uint64
}

// Windows returns the slots that are nearer in time than gap to some row, and for each row which of them are.
func (t *Near) Windows(slots, rows []Place, gap uint64) (order []int32, window [][2]int32) {
	if gap == 0 {
		return nil, nil
	}
	t.span(rows)
	t.order, t.window = t.order[:0], t.window[:0]
	for s, p := range slots {
		i, found := t.find(p.Partition)
		if found && p.At+gap > t.spans[i].from && p.At < t.spans[i].to+gap {
			t.order = append(t.order, int32(s))
		}
	}
	slices.SortFunc(t.order, func(a, b int32) int { return slots[a].Compare(slots[b]) })
	for _, p := range rows {
		from := Place{p.Partition, p.At - min(p.At, gap-1)}
		to := Place{p.Partition, p.At + gap}
		t.window = append(t.window, [2]int32{t.first(slots, from), t.first(slots, to)})
	}
	return t.order, t.window
}

// first returns how many of the slots in order come before p.
func (t *Near) first(slots []Place, p Place) int32 {
	at, _ := slices.BinarySearchFunc(t.order, p, func(s int32, p Place) int { return slots[s].Compare(p) })
	return int32(at)
}

// span sets the time that the rows of each partition take up. Rows of no known partition are near to none.
func (t *Near) span(rows []Place) {
	t.spans = t.spans[:0]
	for _, p := range rows {
		if p.Partition == NoPartition {
			continue
		}
		i, found := t.find(p.Partition)
		if !found {
			t.spans = slices.Insert(t.spans, i, span{p.Partition, p.At, p.At})
		}
		t.spans[i].from, t.spans[i].to = min(t.spans[i].from, p.At), max(t.spans[i].to, p.At)
	}
}

func (t *Near) find(partition int32) (int, bool) {
	return slices.BinarySearchFunc(t.spans, partition, func(s span, p int32) int { return cmp.Compare(s.partition, p) })
}
