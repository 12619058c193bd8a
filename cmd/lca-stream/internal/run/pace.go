package run

import (
	"context"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// A transform is faster than a learner. In a backlog of a stream that is new, it would score row 3,000 with what was learnt of the first 300: levels would be
// those of a model that knows too little, and faults would pass. So in one process with the learner it waits there until the rows have been learnt; what waits is
// scored as it would have been live, or a little better.
//
// It does not wait for long where the learner does not move: it may be in another process.

const (
	backlogRecords = 1000            // up to the end of the partition, with those of the batch
	matureRows     = 3000            // that a model has learnt: it changes little from here on
	pacePatience   = 5 * time.Second // with a learner that does not move
)

// progress is how far the learner of this process has come, by partition. What it has published up to there is on the snapshot topic.
type progress struct {
	mu    sync.Mutex
	next  source.Offsets
	moved chan struct{} // closed at each move
}

func newProgress() *progress {
	return &progress{next: source.Offsets{}, moved: make(chan struct{})}
}

// learnt notes that what is before these offsets has been learnt.
func (l *progress) learnt(next source.Offsets) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, at := range next {
		l.next[p] = at
	}
	close(l.moved)
	l.moved = make(chan struct{})
}

// at returns how far the learner is in a partition, and what tells of its next move.
func (l *progress) at(p source.Partition) (next int64, moved <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next[p], l.moved
}

// of returns the source of a learner whose progress is noted, from start on; a nil progress notes nothing.
func (l *progress) of(s pipeline.Source, start source.Offsets) pipeline.Source {
	if l == nil {
		return s
	}
	l.learnt(start)
	return &learntSource{s, l, nil}
}

// learntSource is the source of a learner. A batch has been learnt, and what it gave was put, when the next one is asked for.
type learntSource struct {
	pipeline.Source
	progress *progress
	next     source.Offsets
}

func (s *learntSource) Read(ctx context.Context) (source.Batch, error) {
	if s.next != nil {
		s.progress.learnt(s.next)
	}
	b, err := s.Source.Read(ctx)
	s.next = b.Claim.Next
	return b, err
}

func (s *learntSource) Seek(ctx context.Context, next source.Offsets) error {
	s.next = nil
	return s.Source.Seek(ctx, next)
}

// pacedSource is the source of a transform that does not outrun the learner in the backlog of a young model.
type pacedSource struct {
	pipeline.Source
	partition source.Partition
	progress  *progress
	idle      time.Duration                   // Read returns an empty batch when it has waited for this long
	behind    func() int64                    // records of the partition that are still to be read
	young     func() bool                     // a model is
	catchUp   func(ctx context.Context) error // reads what the learner has published

	claim   source.Claim  // of the batch that was returned last
	pending *source.Batch // it waits
	left    bool          // the learner did not move: it is not waited for until it is here
}

func (s *pacedSource) Read(ctx context.Context) (source.Batch, error) {
	if s.pending == nil {
		b, err := s.Source.Read(ctx)
		if err != nil || !s.waits(&b) {
			s.claim = b.Claim
			return b, err
		}
		s.pending = &b
	}
	until := time.Now().Add(s.idle)
	if s.claim.Next == nil { // nothing was returned yet that could be returned again
		until = time.Time{}
	}
	done, err := s.await(ctx, until)
	if err != nil {
		s.drop()
		return source.Batch{}, err
	}
	if !done {
		return source.Batch{Claim: s.claim}, nil
	}
	b := *s.pending
	s.pending, s.claim = nil, b.Claim
	return b, nil
}

// waits reports whether the learner is to come first.
func (s *pacedSource) waits(b *source.Batch) bool {
	if len(b.Messages) == 0 {
		return false
	}
	at, _ := s.progress.at(s.partition)
	s.left = s.left && at < b.Messages[0].Offset
	return !s.left && s.behind()+int64(len(b.Messages)) >= backlogRecords && s.young()
}

// await waits until the learner has learnt the batch, or does not move. It returns false if that takes until later than a time; zero: there is none.
func (s *pacedSource) await(ctx context.Context, until time.Time) (done bool, err error) {
	for {
		at, moved := s.progress.at(s.partition)
		if at >= s.pending.Claim.Next[s.partition] {
			return true, s.catchUp(ctx)
		}
		patience := time.NewTimer(pacePatience)
		select {
		case <-ctx.Done():
			patience.Stop()
			return false, ctx.Err()
		case <-moved:
			patience.Stop()
		case <-patience.C:
			s.left = true
			return true, nil
		}
		if !until.IsZero() && time.Now().After(until) {
			return false, nil
		}
	}
}

// drop releases the batch that waits.
func (s *pacedSource) drop() {
	if s.pending != nil {
		s.pending.Release()
		s.pending = nil
	}
}

func (s *pacedSource) Seek(ctx context.Context, next source.Offsets) error {
	s.drop()
	s.claim = source.Claim{}
	return s.Source.Seek(ctx, next)
}

func (s *pacedSource) Close() error {
	s.drop()
	return s.Source.Close()
}
