package pipeline

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// A ModelTable is listed in any order and from any place by choosing among references to its rows, one page of which is copied. One list is made at
// a time, in memory that is used again: it is 16 bytes for each model, whatever is asked for and however often.

// listed is a row as a list sorts it. The number is copied, because the row goes on; the texts of a row stay as they are.
type listed struct {
	row    *ModelRow
	number uint64
}

// modelTexts are the orders of a ModelTable by a text, by the name in JSON of what they compare.
var modelTexts = map[string]func(*ModelRow) string{
	"id":    func(r *ModelRow) string { return r.ID },
	"value": func(r *ModelRow) string { return r.Value },
}

// modelNumbers are those by a number.
var modelNumbers = map[string]func(*ModelRow) uint64{
	"partition":   func(r *ModelRow) uint64 { return signed(int64(r.Partition)) },
	"version":     func(r *ModelRow) uint64 { return r.Version },
	"rows_learnt": func(r *ModelRow) uint64 { return r.RowsLearnt },
	"in_memory": func(r *ModelRow) uint64 {
		if r.InMemory {
			return 1
		}
		return 0
	},
	"last_row":  func(r *ModelRow) uint64 { return signed(r.LastRow.UnixMilli()) },
	"gain":      func(r *ModelRow) uint64 { return fractional(r.Gain) },
	"alarms":    func(r *ModelRow) uint64 { return r.Alarms },
	"anomalies": func(r *ModelRow) uint64 { return r.Anomalies },
}

// signed and fractional keep the order of numbers with a sign. What is not a number comes first.
func signed(n int64) uint64 { return uint64(n) ^ 1<<63 }

func fractional(v float64) uint64 {
	bits := math.Float64bits(v + 0) // there is one zero
	switch {
	case v != v:
		return 0
	case bits>>63 == 1:
		return ^bits
	default:
		return bits ^ 1<<63
	}
}

// ModelOrders returns what a ModelTable can be ordered by, sorted.
func ModelOrders() []string {
	var names []string
	for name := range modelTexts {
		names = append(names, name)
	}
	for name := range modelNumbers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// modelOrder compares rows by one of ModelOrders, and those that are alike in it by id; by id alone where the name is none of them.
func modelOrder(by string, descending bool) func(a, b listed) int {
	text := modelTexts[by]
	return func(a, b listed) int {
		c := cmp.Compare(a.number, b.number)
		if text != nil {
			c = strings.Compare(text(a.row), text(b.row))
		}
		if descending {
			c = -c
		}
		return cmp.Or(c, strings.Compare(a.row.ID, b.row.ID))
	}
}

// List returns limit rows from offset on, and how many there are, in the order of modelOrder.
func (t *ModelTable) List(offset, limit int, by string, descending bool) (rows []ModelRow, total int) {
	t.listing.Lock()
	defer t.listing.Unlock()
	all := t.all(modelNumbers[by])
	order := modelOrder(by, descending)
	from := min(max(offset, 0), len(all))
	page := all[:min(from+max(limit, 0), len(all))]
	choose(all, len(page), order)
	choose(page, from, order)
	page = page[from:]
	slices.SortFunc(page, order)
	rows = make([]ModelRow, 0, len(page))
	for _, l := range page {
		s := t.shard(l.row.ID)
		s.mu.Lock()
		rows = append(rows, *l.row)
		s.mu.Unlock()
	}
	clear(all) // rows that are removed are not kept
	return rows, len(all)
}

// all returns all rows, with their numbers by an order; nil: it has none.
func (t *ModelTable) all(number func(*ModelRow) uint64) []listed {
	t.list = t.list[:0]
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, row := range s.rows {
			l := listed{row: row}
			if number != nil {
				l.number = number(row)
			}
			t.list = append(t.list, l)
		}
		s.mu.Unlock()
	}
	return t.list
}

// choose puts those first that are the first n in an order, without sorting either part.
func choose(all []listed, n int, order func(a, b listed) int) {
	for n > 0 && n < len(all) {
		pivot := all[rand.IntN(len(all))]
		low, high := 0, len(all)-1
		for low <= high {
			switch {
			case order(all[low], pivot) < 0:
				low++
			case order(all[high], pivot) > 0:
				high--
			default:
				all[low], all[high] = all[high], all[low]
				low++
				high--
			}
		}
		switch { // all[:high+1] come first, all[low:] last, and what is between is where it belongs
		case n <= high:
			all = all[:high+1]
		case n >= low:
			all, n = all[low:], n-low
		default:
			return
		}
	}
}
