package pipeline

import (
	"context"
	"log/slog"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

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
func (r *LearnRange) Take(ctx context.Context, x []float64, ids []uint64) error {
	r.one.learner.Borrow(r.scratch)
	defer r.one.learner.Return(r.scratch)
	err := r.one.add(ctx, x, ids, 0)
	r.forget()
	return err
}

// forget drops the snapshots that were due at changes of the stream.
func (r *LearnRange) forget() {
	r.one.pending, r.one.published, r.one.state.Published, r.last = nil, 0, 0, nil
}

// Bytes is about what the learner takes once it has seen many rows.
func (r *LearnRange) Bytes() int64 {
	if r.one.learner == nil {
		return 0
	}
	_, about, _ := CheckpointBytes(r.one.Learner.Neighbours, r.one.features.Dim())
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
func NewSampleRange(rows int, counts *Stats) *SampleRange {
	return &SampleRange{Sample: Sample{Rows: rows, Stats: counts}}
}

// Features notes what the rows have.
func (r *SampleRange) Features(names []string) error {
	r.features = minibatch.Features{Names: names}
	return nil
}

// Take takes rows into the sample.
func (r *SampleRange) Take(_ context.Context, x []float64, ids []uint64) error {
	r.keep(x, ids, 0)
	return nil
}

// Bytes is what the rows take.
func (r *SampleRange) Bytes() int64 {
	const each = 64 // of a row, without its numbers
	return int64(cap(r.kept)*each + len(r.kept)*8*r.features.Dim())
}

// NextPass is never called: a sample is drawn in one pass.
func (r *SampleRange) NextPass() error { return nil }
