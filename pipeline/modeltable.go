package pipeline

import (
	"cmp"
	"container/heap"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/lca-stream/lca-stream/pipeline/modelkey"
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
	Anomalies  uint64    `json:"anomalies"`         // rows with a probability below alarms.p_below, or without alarms below 1e-4
}

// modelOrders are the orders of a ModelTable, by the name in JSON of what they compare.
var modelOrders = map[string]func(a, b *ModelRow) int{
	"id":          func(a, b *ModelRow) int { return strings.Compare(a.ID, b.ID) },
	"partition":   func(a, b *ModelRow) int { return cmp.Compare(a.Partition, b.Partition) },
	"value":       func(a, b *ModelRow) int { return strings.Compare(a.Value, b.Value) },
	"version":     func(a, b *ModelRow) int { return cmp.Compare(a.Version, b.Version) },
	"rows_learnt": func(a, b *ModelRow) int { return cmp.Compare(a.RowsLearnt, b.RowsLearnt) },
	"in_memory":   func(a, b *ModelRow) int { return boolean(a.InMemory) - boolean(b.InMemory) },
	"last_row":    func(a, b *ModelRow) int { return a.LastRow.Compare(b.LastRow) },
	"gain":        func(a, b *ModelRow) int { return cmp.Compare(a.Gain, b.Gain) },
	"alarms":      func(a, b *ModelRow) int { return cmp.Compare(a.Alarms, b.Alarms) },
	"anomalies":   func(a, b *ModelRow) int { return cmp.Compare(a.Anomalies, b.Anomalies) },
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ModelOrders returns what a ModelTable can be ordered by, sorted.
func ModelOrders() []string {
	var names []string
	for name := range modelOrders {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// modelShards is the number of parts of a table, so that a reader of all rows holds a writer up for one part alone.
const modelShards = 64

// ModelTable is the models of the partitions that a process works on. It holds one row a model and no more: as many as
// the stages have in their indices. The zero value is an empty table.
type ModelTable struct {
	shards [modelShards]modelShard
}

// modelShard is one part of a table.
type modelShard struct {
	mu   sync.Mutex // a leaf: nothing is waited for while it is held
	rows map[string]*ModelRow
}

var modelSeed = maphash.MakeSeed()

// Update changes the row of a model. A new one has its id, partition and value before change sees it. change must not
// call the table.
func (t *ModelTable) Update(id string, change func(*ModelRow)) {
	s := &t.shards[maphash.String(modelSeed, id)%modelShards]
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
	s := &t.shards[maphash.String(modelSeed, id)%modelShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if row := s.rows[id]; row != nil {
		change(row)
	}
}

// Remove removes a model that was retired, unless it has come back into memory.
func (t *ModelTable) Remove(id string) {
	s := &t.shards[maphash.String(modelSeed, id)%modelShards]
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
	s := &t.shards[maphash.String(modelSeed, id)%modelShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.rows[id]; found != nil {
		return *found, true
	}
	return ModelRow{}, false
}

// List returns limit rows from offset on, and how many there are. They are ordered by one of ModelOrders, and rows that are alike in it
// by id; by id alone where the name is none of them.
func (t *ModelTable) List(offset, limit int, by string, descending bool) (rows []ModelRow, total int) {
	order := modelOrders[by]
	if order == nil {
		order = modelOrders["id"]
	}
	offset, limit = max(offset, 0), max(limit, 0)
	first := &firstRows{rows: []ModelRow{}, less: func(a, b *ModelRow) bool {
		c := order(a, b)
		if descending {
			c = -c
		}
		return cmp.Or(c, strings.Compare(a.ID, b.ID)) < 0
	}}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, row := range s.rows {
			total++
			first.offer(row, offset+limit)
		}
		s.mu.Unlock()
	}
	sorted := first.rows
	slices.SortFunc(sorted, func(a, b ModelRow) int {
		if first.less(&a, &b) {
			return -1
		}
		return 1
	})
	return sorted[min(offset, len(sorted)):], total
}

// firstRows is a heap of the rows that are first in an order, the last of them on top.
type firstRows struct {
	rows []ModelRow
	less func(a, b *ModelRow) bool
}

func (f *firstRows) Len() int           { return len(f.rows) }
func (f *firstRows) Less(i, j int) bool { return f.less(&f.rows[j], &f.rows[i]) }
func (f *firstRows) Swap(i, j int)      { f.rows[i], f.rows[j] = f.rows[j], f.rows[i] }
func (f *firstRows) Push(x any)         { f.rows = append(f.rows, x.(ModelRow)) }

// Pop removes the last.
func (f *firstRows) Pop() any {
	last := f.rows[len(f.rows)-1]
	f.rows = f.rows[:len(f.rows)-1]
	return last
}

// offer takes a row if it is among the first of most.
func (f *firstRows) offer(row *ModelRow, most int) {
	switch {
	case len(f.rows) < most:
		heap.Push(f, *row)
	case most > 0 && f.less(row, &f.rows[0]):
		f.rows[0] = *row
		heap.Fix(f, 0)
	}
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
