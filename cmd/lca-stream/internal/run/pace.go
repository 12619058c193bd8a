package run

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// A transform is faster than a learner. In a backlog of a stream that is new, it would score row 3,000 with what was learnt of the first 300: levels would be
// those of a model that knows too little, and faults would pass. So it waits there until the rows have been learnt; what waits is scored as it would have been live, or
// a little better. A learner of this process says how far it is, of another its committed offsets do.
//
// It does not wait for long where the learner does not move: there may be none.

const (
	backlogRows  = 1000             // up to the end of the partition, with those of the batch
	matureRows   = 3000             // that a model has learnt: it changes little from here on
	pacePatience = 15 * time.Second // with a learner that does not move: two that start together are that far apart at most
	paceLook     = time.Second      // between two looks at how far it is
)

// learnerAt says how far a learner is in a partition; -1: it has not begun. moved is closed at its next move; nil: that is not known, because the learner is in
// another process. What that one commits is up to two snapshot.every behind what it has learnt.
type learnerAt interface {
	at(context.Context, source.Partition) (next int64, moved <-chan struct{})
}

// committedAt is a learner in another process.
type committedAt struct {
	system *system.Process
}

// at returns the end of the partition, and more, where the brokers do not say: then nothing is waited for.
func (c committedAt) at(ctx context.Context, p source.Partition) (int64, <-chan struct{}) {
	all, err := source.CommittedSoFar(ctx, c.system.Cluster, system.LearnGroup(c.system.Config), []source.Partition{p})
	if err != nil {
		c.system.Log.Debug("how far the learner is is not known", "partition", p.String(), "error", err)
		return math.MaxInt64, nil
	}
	return all[p].Next, nil
}

// progress holds the offset up to which the learner of this process has learnt each partition. What it has published up to there is on the snapshot topic.
// With model.by the groups of learners and transforms may divide the partitions in different ways: another process may learn what is scored here.
type progress struct {
	elsewhere learnerAt // nil: all partitions are learnt here

	mu    sync.Mutex
	next  source.Offsets
	moved chan struct{} // closed at each move
}

func newProgress(elsewhere learnerAt) *progress {
	return &progress{elsewhere: elsewhere, next: source.Offsets{}, moved: make(chan struct{})}
}

// learnt notes that what is before these offsets has been learnt.
func (l *progress) learnt(next source.Offsets) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.next, next)
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *progress) at(ctx context.Context, p source.Partition) (next int64, moved <-chan struct{}) {
	l.mu.Lock()
	next, here := l.next[p]
	moved = l.moved
	l.mu.Unlock()
	if !here && l.elsewhere != nil {
		if at, _ := l.elsewhere.at(ctx, p); at >= 0 {
			return at, nil
		}
	}
	return next, moved
}

// left forgets partitions that are not learnt here any more.
func (l *progress) left(parts source.Offsets) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range parts {
		delete(l.next, p)
	}
}

// of returns the source of a learner whose progress is noted, from start on; a nil progress notes nothing.
func (l *progress) of(s pipeline.Source, start source.Offsets) pipeline.Source {
	if l == nil {
		return s
	}
	l.learnt(start)
	return &learntSource{s, l, start, nil}
}

// learntSource is the source of a learner. A batch has been learnt, and what it gave was put, when the next one is asked for.
type learntSource struct {
	pipeline.Source
	progress *progress
	parts    source.Offsets // where each began
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

func (s *learntSource) Close() error {
	s.progress.left(s.parts)
	return s.Source.Close()
}

// pacedSource is the source of a transform that does not outrun the learner in the backlog of a young model.
type pacedSource struct {
	pipeline.Source
	partition source.Partition
	learner   learnerAt
	every     time.Duration // between two commits of a learner in another process
	fresh     time.Duration // what is younger is not waited for: a learner that keeps up may not have committed it
	idle      time.Duration // Read returns an empty batch when it has waited for this long
	behind    func() int64  // records of the partition that are still to be read
	young     func() bool   // a model is
	log       *slog.Logger
	known     func() bool                     // there is a model, ours or of another pipeline
	catchUp   func(ctx context.Context) error // reads what the learner has published

	claim   source.Claim  // of the batch that was returned last
	pending *source.Batch // it waits
	at      int64         // where the learner was seen last
	since   time.Time     // that it was there; zero: it was not seen
	left    bool          // the learner did not move: it is not waited for until it is here
	end     int64         // of the first backlog; 0: there was none
	said    bool          // that rows wait
}

func (s *pacedSource) Read(ctx context.Context) (source.Batch, error) {
	if s.pending == nil {
		b, err := s.Source.Read(ctx)
		if err != nil || !s.waits(ctx, &b) {
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
	s.pending, s.claim, s.since = nil, b.Claim, time.Time{}
	return b, nil
}

// waits reports whether the learner is to come first: in the first backlog, and up to where it ended when it was found. What comes later does not wait: as much comes
// until a learner in another process commits as would be a backlog again, and one that cannot keep up would make the transform as late as it is.
func (s *pacedSource) waits(ctx context.Context, b *source.Batch) bool {
	if len(b.Messages) == 0 {
		return false
	}
	first := b.Messages[0]
	if s.end == 0 {
		behind, messages := s.behind(), int64(len(b.Messages))
		if each := max(b.Rows()/messages, 1); (behind+messages)*each >= backlogRows {
			s.end = b.Claim.Next[s.partition] + behind
		}
	}
	if first.Offset >= s.end || time.Since(first.Time) < s.fresh || !s.young() {
		return false
	}
	if s.left {
		at, _ := s.learner.at(ctx, s.partition)
		s.left = at < first.Offset
	}
	if !s.left && !s.said {
		s.said = true
		s.log.Info("rows wait until the learner has learnt them: there is a backlog, and a model that is young", "partition", s.partition.String(), "up_to", s.end)
	}
	return !s.left
}

// await waits until the learner has learnt the batch, or does not move. It returns false if that takes until later than a time; zero: there is none.
func (s *pacedSource) await(ctx context.Context, until time.Time) (done bool, err error) {
	for {
		at, moved := s.learner.at(ctx, s.partition)
		if at >= s.pending.Claim.Next[s.partition] {
			return true, s.catchUp(ctx)
		}
		if !s.young() { // it has come to know enough meanwhile
			return true, nil
		}
		now, patience := time.Now(), pacePatience
		if moved == nil {
			patience += 2 * s.every
		}
		switch {
		case s.since.IsZero() || at != s.at:
			s.at, s.since = at, now
		case now.Sub(s.since) >= patience, at < 0 && (now.Sub(s.since) >= pacePatience || s.known()):
			s.left, s.since = true, time.Time{}
			return true, nil
		case !until.IsZero() && now.After(until):
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-moved:
		case <-time.After(paceLook):
		}
	}
}

// drop releases the batch that waits.
func (s *pacedSource) drop() {
	if s.pending != nil {
		s.pending.Release()
		s.pending, s.since = nil, time.Time{}
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
