package pipeline

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// Sample is the stage that draws a uniform sample of at most Rows rows, because the batch algorithms need all rows at
// once. A row is kept by the hash of its identity, so the sample depends only on the range. It keeps the order in
// which the rows were read.
type Sample struct {
	Columns  []string // source.features
	Rows     int      // largest number of rows, ≥ 1
	Stats    *Stats
	Log      *slog.Logger
	Unusable Unusable

	features minibatch.Features
	gathered minibatch.Rows
	x        []float64
	ids      []uint64
	kept     keptRows
	seen     uint64
}

// keptRows is a heap with the largest identity on top, which is removed first.
type keptRows []keptRow

type keptRow struct {
	id        uint64
	seq       uint64
	partition int32
	x         []float64
}

func (k keptRows) Len() int           { return len(k) }
func (k keptRows) Less(i, j int) bool { return k[i].id > k[j].id }
func (k keptRows) Swap(i, j int)      { k[i], k[j] = k[j], k[i] }

// Push implements heap.Interface.
func (k *keptRows) Push(v any) { *k = append(*k, v.(keptRow)) }

// Pop implements heap.Interface.
func (k *keptRows) Pop() any {
	last := (*k)[len(*k)-1]
	*k = (*k)[:len(*k)-1]
	return last
}

// Do takes the rows of a batch. It counts bad messages and rows, and skips them.
func (s *Sample) Do(_ context.Context, b source.Batch) (Work, error) {
	for i := range b.Messages {
		m := &b.Messages[i]
		if m.Err != nil {
			s.Unusable.record(m.Err)
			continue
		}
		if m.Record == nil || m.Record.NumRows() == 0 {
			continue
		}
		if err := s.take(m); err != nil {
			bad := refused(m, err)
			s.Unusable.record(bad)
			s.Stats.Reject(bad.Code, uint64(m.Record.NumRows()))
		}
	}
	return Work{}, nil
}

func (s *Sample) take(m *source.Message) error {
	if len(s.features.Names) == 0 {
		f, leftOut, err := minibatch.Choose(m.Record, s.Columns)
		if err != nil {
			return err
		}
		s.features = f
		warnLeftOut(s.Log, f, leftOut)
	}
	if err := readable(&s.features, &s.gathered, m.Record); err != nil {
		return err
	}
	s.Unusable.read(&s.features, m.Record)
	return eachSlice(&s.features, &s.gathered, m.Record, func(first int) error { s.sample(m, first); return nil })
}

// sample takes the rows of a slice of a message, which begins at row first.
func (s *Sample) sample(m *source.Message, first int) {
	topic, offset, before := m.Identity()
	id := minibatch.NewRowIDs(topic, m.Partition.ID)
	s.x, s.ids = s.gathered.AppendValid(s.x[:0], s.ids[:0], id, offset, before+first)
	s.Unusable.rows(len(s.gathered.Invalid), len(s.ids))
	s.keep(s.x, s.ids, m.Partition.ID)
}

// keep takes rows into the sample.
func (s *Sample) keep(x []float64, ids []uint64, partition int32) {
	d := len(s.features.Names)
	for i, id := range ids {
		s.seen++
		row := x[i*d : (i+1)*d]
		if len(s.kept) < s.Rows {
			heap.Push(&s.kept, keptRow{id: id, seq: s.seen, partition: partition, x: slices.Clone(row)})
			continue
		}
		if top := &s.kept[0]; id < top.id {
			top.id, top.seq, top.partition = id, s.seen, partition
			copy(top.x, row)
			heap.Fix(&s.kept, 0)
		}
	}
	s.Stats.LearntRows.Add(uint64(len(ids)))
}

// Kept does nothing, because a sample is never put.
func (s *Sample) Kept() {}

// Rewind is never called, because a sample is never put.
func (s *Sample) Rewind(context.Context) (source.Offsets, error) {
	return nil, errors.New("pipeline: internal error: a sample cannot be rewound")
}

// Matrix returns the sample, the features and the number of rows that were read, or the reason why there is no
// sample.
func (s *Sample) Matrix() (x *mat.Dense, features []string, seen uint64, err error) {
	if len(s.kept) == 0 {
		return nil, nil, s.seen, s.Unusable.nothing()
	}
	slices.SortFunc(s.kept, func(a, b keptRow) int { return cmp.Compare(a.seq, b.seq) })
	d := len(s.features.Names)
	x = mat.NewDense(len(s.kept), d, nil)
	for i, r := range s.kept {
		x.SetRow(i, r.x)
	}
	return x, s.features.Names, s.seen, nil
}

// Partitions returns the partition of each row of Matrix, which comes first.
func (s *Sample) Partitions() []int32 {
	all := make([]int32, len(s.kept))
	for i, r := range s.kept {
		all[i] = r.partition
	}
	return all
}
