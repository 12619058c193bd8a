package online

import (
	"cmp"
	"slices"
)

// inTime finds the neighbours that are near in time.
type inTime struct {
	order  []int32    // slots, by partition and time
	window [][2]int32 // of each row, where its own are in order
	spans  []span     // by partition
}

// span is the time that a partition's rows take up.
type span struct {
	partition int32
	from, to  uint64
}

// windows returns the slots that are nearer in time than gap to some row, and for each row which of them are.
func (t *inTime) windows(slots, rows []place, gap uint64) (order []int32, window [][2]int32) {
	if gap == 0 {
		return nil, nil
	}
	t.span(rows)
	t.order, t.window = t.order[:0], t.window[:0]
	for s, p := range slots {
		i, found := t.find(p.partition)
		if found && p.at+gap > t.spans[i].from && p.at < t.spans[i].to+gap {
			t.order = append(t.order, int32(s))
		}
	}
	slices.SortFunc(t.order, func(a, b int32) int { return slots[a].compare(slots[b]) })
	for _, p := range rows {
		from := place{p.partition, p.at - min(p.at, gap-1)}
		to := place{p.partition, p.at + gap}
		t.window = append(t.window, [2]int32{t.first(slots, from), t.first(slots, to)})
	}
	return t.order, t.window
}

// first returns how many of the slots in order come before p.
func (t *inTime) first(slots []place, p place) int32 {
	at, _ := slices.BinarySearchFunc(t.order, p, func(s int32, p place) int { return slots[s].compare(p) })
	return int32(at)
}

// span sets the time that the rows of each partition take up. Rows of no known partition are near to none.
func (t *inTime) span(rows []place) {
	t.spans = t.spans[:0]
	for _, p := range rows {
		if p.partition == noPartition {
			continue
		}
		i, found := t.find(p.partition)
		if !found {
			t.spans = slices.Insert(t.spans, i, span{p.partition, p.at, p.at})
		}
		t.spans[i].from, t.spans[i].to = min(t.spans[i].from, p.at), max(t.spans[i].to, p.at)
	}
}

func (t *inTime) find(partition int32) (int, bool) {
	return slices.BinarySearchFunc(t.spans, partition, func(s span, p int32) int { return cmp.Compare(s.partition, p) })
}
