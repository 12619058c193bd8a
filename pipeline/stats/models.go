package stats

import (
	"cmp"
	"hash/maphash"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// ModelRow is what is shown of a model that belongs to one value.
type ModelRow struct {
	ID         string    `json:"id"`
	Partition  int32     `json:"partition"` // of the source
	Value      string    `json:"value"`     // as text; percent-encoded, as in the id, where it is not UTF-8
	Version    uint64    `json:"version"`   // newest that is published; 0: none is
	RowsLearnt uint64    `json:"rows_learnt"`
	InMemory   bool      `json:"in_memory"`         // of the learner, or of the transform where there is no learner
	LastRow    time.Time `json:"last_row,omitzero"` // when its last row was read here
	Gain       float64   `json:"gain"`              // nats per row by which the model is better than a single Gaussian
	Alarms     uint64    `json:"alarms"`            // changes of the stream
	Anomalies  uint64    `json:"anomalies"`         // rows with a lca_p below 1e-4
}

// modelShards is the number of parts of a table, so that a reader of all rows holds a writer up for one part alone.
const modelShards = 64

// ModelTable is the models of the partitions that a process works on. It holds one row a model and no more: as many as
// the stages have in their indices. The zero value is an empty table.
type ModelTable struct {
	shards [modelShards]modelShard

	listing sync.Mutex // held while a list is made
	list    []listed   // of the last one, cleared
}

// modelShard is one part of a table.
type modelShard struct {
	mu   sync.Mutex // a leaf: nothing is waited for while it is held
	rows map[string]*ModelRow
}

var modelSeed = maphash.MakeSeed()

// shard returns the part that the row of a model is in.
func (t *ModelTable) shard(id string) *modelShard {
	return &t.shards[maphash.String(modelSeed, id)%modelShards]
}

// Update changes the row of a model. A new one has its id, partition and value before change sees it. These stay as they are, and change must
// not call the table.
func (t *ModelTable) Update(id string, change func(*ModelRow)) {
	s := t.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.rows[id]
	if row == nil {
		if s.rows == nil {
			s.rows = map[string]*ModelRow{}
		}
		row = newModelRow(id)
		s.rows[id] = row
	}
	change(row)
}

func newModelRow(id string) *ModelRow {
	_, partition, value, ok := modelkey.Split(id)
	row := &ModelRow{ID: id, Partition: partition, Value: string(value)}
	if ok && !utf8.Valid(value) {
		row.Value = id[strings.LastIndexByte(id, '/')+1:]
	}
	return row
}

// Change changes the row of a model that is in the table.
func (t *ModelTable) Change(id string, change func(*ModelRow)) {
	s := t.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if row := s.rows[id]; row != nil {
		change(row)
	}
}

// Remove removes a model that was retired, unless it has come back into memory.
func (t *ModelTable) Remove(id string) {
	s := t.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if row := s.rows[id]; row != nil && !row.InMemory {
		delete(s.rows, id)
	}
}

// Drop removes the models of a partition that was given away.
func (t *ModelTable) Drop(partition int32) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for id, row := range s.rows {
			if row.Partition == partition {
				delete(s.rows, id)
			}
		}
		s.mu.Unlock()
	}
}

// Len returns how many models there are.
func (t *ModelTable) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.rows)
		s.mu.Unlock()
	}
	return n
}

// Get returns the row of a model; false if there is none.
func (t *ModelTable) Get(id string) (row ModelRow, ok bool) {
	s := t.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.rows[id]; found != nil {
		return *found, true
	}
	return ModelRow{}, false
}

// ModelCounts are the models of a stage that has one for each value.
type ModelCounts struct {
	Memory  atomic.Int64  // Models in memory.
	Evicted atomic.Uint64 // Models that left memory because others needed it.
	Loaded  atomic.Uint64 // Models that came back because a row asked for them.
	Retired atomic.Uint64 // Models that are no more, because no row came for model.idle.
}

// ModelCounts returns the counts of a stage, learn or transform. Asking makes them: without keys no stage asks.
func (s *Stats) ModelCounts(stage string) *ModelCounts {
	counts, ok := s.models.Load(stage)
	if !ok {
		counts, _ = s.models.LoadOrStore(stage, new(ModelCounts))
	}
	return counts.(*ModelCounts)
}

// ModelStages returns the counts of the stages that have a model for each value.
func (s *Stats) ModelStages() map[string]*ModelCounts {
	all := map[string]*ModelCounts{}
	s.models.Range(func(stage, counts any) bool {
		all[stage.(string)] = counts.(*ModelCounts)
		return true
	})
	return all
}

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

// PublishedModel is a model and the moment it was published.
type PublishedModel struct {
	*snapshot.Snapshot
}

// Age returns the time since the model was published, by its Kafka timestamp.
func (m *PublishedModel) Age(now time.Time) time.Duration { return now.Sub(m.Time) }

// Encode writes the model as a snapshot file: each part is an Arrow stream.
func (m *PublishedModel) Encode(w io.Writer) error { return snapshot.WriteFile(w, m.Snapshot) }
