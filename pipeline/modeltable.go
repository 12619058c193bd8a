package pipeline

import (
	"hash/maphash"
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
