package stats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
)

// modelOrders are the orders of a ModelTable.
var modelOrders = map[string]func(a, b *ModelRow) int{
	"id":          func(a, b *ModelRow) int { return strings.Compare(a.ID, b.ID) },
	"partition":   func(a, b *ModelRow) int { return cmp.Compare(a.Partition, b.Partition) },
	"value":       func(a, b *ModelRow) int { return strings.Compare(a.Value, b.Value) },
	"version":     func(a, b *ModelRow) int { return cmp.Compare(a.Version, b.Version) },
	"rows_learnt": func(a, b *ModelRow) int { return cmp.Compare(a.RowsLearnt, b.RowsLearnt) },
	"in_memory": func(a, b *ModelRow) int {
		return strings.Compare(fmt.Sprint(a.InMemory), fmt.Sprint(b.InMemory))
	},
	"last_row":  func(a, b *ModelRow) int { return a.LastRow.Compare(b.LastRow) },
	"gain":      func(a, b *ModelRow) int { return cmp.Compare(a.Gain, b.Gain) },
	"alarms":    func(a, b *ModelRow) int { return cmp.Compare(a.Alarms, b.Alarms) },
	"anomalies": func(a, b *ModelRow) int { return cmp.Compare(a.Anomalies, b.Anomalies) },
}

// A page of the table is that of all rows sorted, for each order, both ways, and beyond the end.
func TestModelTablePages(t *testing.T) {
	var table ModelTable
	random := rand.New(rand.NewPCG(1, 2))
	const n = 500
	lastRows := []time.Time{{}, time.UnixMilli(-1), time.UnixMilli(0), time.UnixMilli(1), time.Unix(29, 0), time.UnixMilli(math.MaxInt64)}
	gains := []float64{math.Inf(-1), -2, -1e-300, math.Copysign(0, -1), 0, 1e-300, 0.5, 3, math.Inf(1)}
	for i := range n {
		table.Update(modelkey.ID("m", int32(i%4), fmt.Appendf(nil, "key %d", i)), func(r *ModelRow) {
			*r = ModelRow{
				ID: r.ID, Partition: r.Partition, Value: r.Value, Version: random.Uint64N(9), RowsLearnt: random.Uint64N(20), InMemory: i%3 == 0,
				LastRow: lastRows[random.IntN(len(lastRows))], Gain: gains[random.IntN(len(gains))], Alarms: random.Uint64N(3), Anomalies: random.Uint64N(4),
			}
		})
	}
	all, total := table.List(0, 10*n, "id", false)
	if len(all) != n || total != n {
		t.Fatalf("%d of %d rows, want %d", len(all), total, n)
	}
	for _, by := range ModelOrders() {
		for _, descending := range []bool{false, true} {
			want := slices.Clone(all) // sorted by id
			slices.SortStableFunc(want, func(a, b ModelRow) int {
				if descending {
					return modelOrders[by](&b, &a)
				}
				return modelOrders[by](&a, &b)
			})
			for _, page := range []struct{ offset, limit int }{{0, 10}, {3, 1}, {490, 100}, {n, 5}, {0, 0}, {-4, 2}} {
				from := min(max(page.offset, 0), n)
				got, total := table.List(page.offset, page.limit, by, descending)
				if wrong := diff.Diff(want[from:min(from+page.limit, n)], got); wrong != "" || total != n {
					t.Errorf("by %s, descending %v, from %d, %d rows, total %d (-want +got):\n%s", by, descending, page.offset, page.limit, total, wrong)
				}
			}
		}
	}
	if unknown, _ := table.List(0, 10*n, "colour", false); diff.Diff(all, unknown) != "" {
		t.Error("an order that does not exist is not that by id")
	}
}

// A list takes memory for its page, wherever that begins and however many there are at once.
func TestModelTableListsInBoundedMemory(t *testing.T) {
	var table ModelTable
	const n, lists, limit = 20000, 8, 100
	for i := range n {
		table.Update(modelkey.ID("m", 0, fmt.Appendf(nil, "machine %06d", i)), func(r *ModelRow) { r.RowsLearnt = uint64(i * 7919 % n) })
	}
	table.List(0, 1, "id", false) // makes what is used again
	for _, by := range []string{"id", "rows_learnt"} {
		for _, offset := range []int{0, n / 2, n - limit} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var all sync.WaitGroup
			for range lists {
				all.Go(func() {
					if rows, total := table.List(offset, limit, by, false); len(rows) != limit || total != n {
						t.Errorf("%d rows of %d", len(rows), total)
					}
				})
			}
			all.Wait()
			runtime.ReadMemStats(&after)
			if each := (after.TotalAlloc - before.TotalAlloc) / lists; each > 64<<10 {
				t.Errorf("by %s, from %d: a list takes %d bytes", by, offset, each)
			}
		}
	}
}

// A row knows the partition and the value of its model from the first update; Drop removes a partition's alone.
func TestModelTableRows(t *testing.T) {
	var table ModelTable
	for _, one := range []struct {
		partition int32
		value     string
		shown     string
	}{
		{0, "press 7/west", "press 7/west"}, {1, "", ""}, {1, "größe", "größe"}, {2, "\xff\x00", "%FF%00"}, {1, "%41", "%41"},
	} {
		id := modelkey.ID("fleet", one.partition, []byte(one.value))
		table.Update(id, func(r *ModelRow) { r.Version++ })
		table.Update(id, func(r *ModelRow) { r.Version++ })
		got, ok := table.Get(id)
		if want := (ModelRow{ID: id, Partition: one.partition, Value: one.shown, Version: 2}); got != want || !ok {
			t.Errorf("%q: %+v, want %+v", one.value, got, want)
		}
	}
	table.Drop(1)
	rows, total := table.List(0, 9, "id", false)
	if total != 2 || table.Len() != 2 || len(rows) != 2 || rows[0].Partition != 0 || rows[1].Partition != 2 {
		t.Errorf("after partition 1 was given away: %+v", rows)
	}
	if _, ok := table.Get(modelkey.ID("fleet", 1, nil)); ok {
		t.Error("a model of the partition that was given away is still there")
	}
}

// The names in JSON are those that readers were promised, and a model without a row has no time of its last one.
func TestModelRowNames(t *testing.T) {
	text, err := json.Marshal(ModelRow{ID: "m/3/a"})
	if want := `{"id":"m/3/a","partition":0,"value":"","version":0,"rows_learnt":0,"in_memory":false,"gain":0,"alarms":0,"anomalies":0}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	if text, _ = json.Marshal(ModelRow{LastRow: time.Unix(7, 0).UTC()}); !strings.Contains(string(text), `"last_row":"1970-01-01T00:00:07Z"`) {
		t.Errorf("%s lacks the time of the last row", text)
	}
}

// Writers and readers work at the same time; the race detector watches.
func TestModelTableIsShared(t *testing.T) {
	var table ModelTable
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 2000 {
				id := modelkey.ID("m", int32(w), fmt.Append(nil, i%100))
				table.Update(id, func(r *ModelRow) { r.RowsLearnt++ })
				if i%500 == 0 {
					table.List(0, 10, "rows_learnt", true)
					table.Get(id)
				}
			}
		})
	}
	all.Wait()
	rows, total := table.List(0, 1000, "rows_learnt", false)
	if total != 400 || rows[0].RowsLearnt != 20 || rows[399].RowsLearnt != 20 {
		t.Errorf("%d models, rows learnt %d … %d; want 400 with 20 each", total, rows[0].RowsLearnt, rows[len(rows)-1].RowsLearnt)
	}
}

// A stage that has no models by value has no counts, so that its metrics do not appear.
func TestModelCounts(t *testing.T) {
	s := NewStats()
	if got := s.ModelStages(); len(got) != 0 {
		t.Fatalf("counts without keys: %v", got)
	}
	s.ModelCounts("learn").Memory.Add(3)
	s.ModelCounts("learn").Memory.Add(-1)
	s.ModelCounts("learn").Evicted.Add(1)
	if got := s.ModelStages(); len(got) != 1 || got["learn"].Memory.Load() != 2 || got["learn"].Evicted.Load() != 1 || got["learn"].Loaded.Load() != 0 {
		t.Errorf("counts of the learner: %v", got)
	}
}
