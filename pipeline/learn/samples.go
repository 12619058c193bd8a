package learn

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// Sample is the stage that draws a uniform sample of at most Rows rows, because the batch algorithms need all rows at
// once. A row is kept by the hash of its identity, so the sample depends only on the range. It keeps the order in
// which the rows were read.
type Sample struct {
	neverPut
	Columns  []string    // source.features
	Series   modelkey.By // a column of it is no feature, as for Learn
	Rows     int         // largest number of rows, ≥ 1
	Stats    *stats.Stats
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

func (k keptRows) Len() int { return len(k) }

func (k keptRows) Less(i, j int) bool { return k[i].id > k[j].id }

func (k keptRows) Swap(i, j int) { k[i], k[j] = k[j], k[i] }

// Push implements heap.Interface.
func (k *keptRows) Push(v any) { *k = append(*k, v.(keptRow)) }

// Pop implements heap.Interface.
func (k *keptRows) Pop() any {
	last := (*k)[len(*k)-1]
	*k = (*k)[:len(*k)-1]
	return last
}

// Do takes the rows of a batch. It counts bad messages and rows, and skips them.
func (s *Sample) Do(_ context.Context, b source.Batch) (pipeline.Work, error) {
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
			bad := encode.Refused(m, err)
			s.Unusable.record(bad)
			s.Stats.Reject(bad.Code, uint64(m.Record.NumRows()))
		}
	}
	return pipeline.Work{}, nil
}

func (s *Sample) take(m *source.Message) error {
	if len(s.features.Names) == 0 {
		f, leftOut, err := minibatch.ChooseWithout(m.Record, s.Columns, s.Series.ColumnName())
		if err != nil {
			return err
		}
		s.features = f
		WarnLeftOut(s.Log, f, leftOut)
	}
	if err := reject.Readable(&s.features, &s.gathered, m.Record); err != nil {
		return err
	}
	s.Unusable.read(&s.features, m.Record)
	return reject.EachSlice(&s.features, &s.gathered, m.Record, func(first int) error { s.sample(m, first); return nil })
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

// neverPut is the part of a stage whose work is never put.
type neverPut struct{}

// Kept does nothing.
func (neverPut) Kept() {}

// Rewind is never called.
func (neverPut) Rewind(context.Context) (source.Offsets, error) {
	return nil, errors.New("pipeline: internal error: what is never put cannot be rewound")
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

// LearnRange is the RangeModel that learns as a Learn does. Several that work in turn share their working memory.
type LearnRange struct {
	one     *Learn
	scratch *online.Scratch
	last    *snapshot.Snapshot
}

// NewLearnRange returns a LearnRange. c says what is learnt, and scratch is the working memory that it shares.
func NewLearnRange(c LearnConfig, scratch *online.Scratch) *LearnRange {
	r := &LearnRange{scratch: scratch}
	c.LearnRest, c.OnSnapshot = true, func(s *snapshot.Snapshot) { r.last = s }
	c.SnapshotRows, c.Log = 0, slog.New(quietHandler{c.Log.Handler()})
	r.one = &Learn{LearnConfig: c, oneOfMany: true}
	r.one.reset(source.Offsets{})
	r.one.state.Parent = 1 // a snapshot for each of them would come before the last one, which is wanted
	return r
}

// Features creates the learner.
func (r *LearnRange) Features(names []string) error {
	if err := r.one.start(minibatch.Features{Names: names}); err != nil {
		return err
	}
	r.one.learner.Return(r.scratch)
	return nil
}

// Take learns rows.
func (r *LearnRange) Take(ctx context.Context, x []float64, ids []uint64, stamp int64) error {
	r.one.learner.Borrow(r.scratch)
	defer r.one.learner.Return(r.scratch)
	err := r.one.learnRows(ctx, x, ids, stamp)
	r.forget()
	return err
}

// forget drops the snapshots that were due at changes of the stream.
func (r *LearnRange) forget() {
	r.one.pending, r.one.published, r.one.state.Published, r.last = nil, 0, 0, nil
}

// Accept lets what was held be learnt.
func (r *LearnRange) Accept(a *episode.Acceptance) {
	if r.one.learner != nil {
		r.one.learner.Borrow(r.scratch)
		r.one.accept(a)
		r.one.learner.Return(r.scratch)
	}
}

// Bytes is about what the learner takes once it has seen many rows.
func (r *LearnRange) Bytes() int64 {
	if r.one.learner == nil {
		return 0
	}
	_, about, _ := checkpoint.CheckpointBytes(r.one.Learner.Neighbours, r.one.features.Dim())
	return int64(about) * 3 / 2
}

// NextPass begins another pass over the same rows.
func (r *LearnRange) NextPass() error {
	r.one.learner.Borrow(r.scratch)
	defer r.one.learner.Return(r.scratch)
	err := r.one.Restart(context.Background(), source.Offsets{})
	r.forget()
	return err
}

// Result learns what is left and returns the model, or why there is none.
func (r *LearnRange) Result(ctx context.Context) (*snapshot.Snapshot, SetAside, error) {
	defer r.one.learner.Close()
	r.one.learner.Borrow(r.scratch)
	_, err := r.one.Finish(ctx)
	aside := r.one.SetAside()
	r.one.learner.Return(r.scratch)
	if err != nil {
		return nil, aside, err
	}
	r.last.Number, r.last.Parent = 0, 0 // the snapshots before it were not published
	return r.last, aside, nil
}

// SampleRange is the RangeModel that keeps a uniform sample of the rows, as Sample does.
type SampleRange struct{ Sample }

// NewSampleRange returns a SampleRange of at most that number of rows.
func NewSampleRange(rows int, counts *stats.Stats) *SampleRange {
	return &SampleRange{Sample: Sample{Rows: rows, Stats: counts}}
}

// Features notes what the rows have.
func (r *SampleRange) Features(names []string) error {
	r.features = minibatch.Features{Names: names}
	return nil
}

// Take takes rows into the sample.
func (r *SampleRange) Take(_ context.Context, x []float64, ids []uint64, _ int64) error {
	r.keep(x, ids, 0)
	return nil
}

// Accept does nothing: all rows are taken.
func (r *SampleRange) Accept(*episode.Acceptance) {}

// Bytes is what the rows take.
func (r *SampleRange) Bytes() int64 {
	const each = 64 // of a row, without its numbers
	return int64(cap(r.kept)*each + len(r.kept)*8*r.features.Dim())
}

// NextPass is never called: a sample is drawn in one pass.
func (r *SampleRange) NextPass() error { return nil }
