package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// numbered gives batches of ten messages of one partition, up to an end.
type numbered struct {
	partition source.Partition
	next, end int64
}

func (s *numbered) Read(ctx context.Context) (source.Batch, error) {
	if s.next == s.end {
		<-ctx.Done()
		return source.Batch{}, ctx.Err()
	}
	b := source.Batch{}
	for range 10 {
		b.Messages = append(b.Messages, source.Message{Partition: s.partition, Offset: s.next})
		s.next++
	}
	b.Claim.Next = source.Offsets{s.partition: s.next}
	return b, nil
}

func (s *numbered) Seek(_ context.Context, next source.Offsets) error {
	s.next = next[s.partition]
	return nil
}

func (s *numbered) Close() error { return nil }

// A transform does not outrun the learner of its process where a young model has a backlog. It waits for nothing else, and not for a learner that does not move.
func TestTransformDoesNotOutrunTheLearner(t *testing.T) {
	p := source.Partition{Topic: "t", ID: 1}
	const end = 3000
	for _, c := range []struct {
		name   string
		end    int64 // of the partition
		young  bool
		learns time.Duration // the learner takes for ten rows; 0: there is none
		least  time.Duration // the first ten rows take
		most   time.Duration // all rows take
	}{
		{"backlog of a young model", end, true, time.Second, time.Second, end / 10 * time.Second},
		{"slow learner", end, true, 4 * time.Minute / 60, 4 * time.Second, 4 * end / 10 * time.Second},
		{"known model", end, false, time.Second, 0, 0},
		{"live", 500, true, time.Second, 0, 0},
		{"no learner", end, true, 0, pacePatience, pacePatience},
		{"learner that is stuck", end, true, time.Hour, pacePatience, pacePatience},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				pace, learns, reads := newProgress(), &numbered{p, 0, c.end}, &numbered{p, 0, c.end}
				if c.learns > 0 {
					go func() {
						src := pace.of(learns, source.Offsets{p: 0})
						for {
							if _, err := src.Read(ctx); err != nil {
								return
							}
							select {
							case <-ctx.Done():
							case <-time.After(c.learns):
							}
						}
					}()
				}
				caught := 0
				s := &pacedSource{
					Source: reads, partition: p, learner: pace, patience: pacePatience, idle: time.Minute, known: func() bool { return false },
					behind: func() int64 { return c.end - reads.next }, young: func() bool { return c.young },
					catchUp: func(context.Context) error { caught++; return nil },
				}
				begin, first := time.Now(), time.Duration(-1)
				for at := int64(0); at < c.end; {
					b, err := s.Read(ctx)
					if err != nil {
						t.Fatal(err)
					}
					if len(b.Messages) > 0 && b.Messages[0].Offset != at {
						t.Fatalf("offset %d comes after %d", b.Messages[0].Offset, at)
					}
					if at = b.Claim.Next[p]; first < 0 {
						first = time.Since(begin)
					}
				}
				if took := time.Since(begin); first < c.least || took > c.most {
					t.Errorf("the first rows took %v, want at least %v; all %v, want at most %v", first, c.least, took, c.most)
				}
				if waits := c.young && c.end == end && c.learns > 0 && c.learns < time.Minute; waits != (caught > 0) {
					t.Errorf("the newest versions were read %d times", caught)
				}
			})
		})
	}
}

// What waits is given back when it takes long, so that offsets are renewed, and comes again after a step back.
func TestPacedSourceBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, pace := source.Partition{Topic: "t"}, newProgress()
		reads := &numbered{p, 0, 3000}
		s := &pacedSource{
			Source: reads, partition: p, learner: pace, patience: pacePatience, idle: 3 * time.Second,
			behind: func() int64 { return 2000 }, young: func() bool { return true }, catchUp: func(context.Context) error { return nil },
		}
		read := func(messages int, next int64) {
			t.Helper()
			if b, err := s.Read(t.Context()); err != nil || len(b.Messages) != messages || b.Claim.Next[p] != next {
				t.Fatalf("%d messages up to %v, %v; want %d up to %d", len(b.Messages), b.Claim.Next, err, messages, next)
			}
		}
		pace.learnt(source.Offsets{p: 10})
		read(10, 10)
		moves := time.AfterFunc(4*time.Second, func() { pace.learnt(source.Offsets{p: 11}) })
		read(0, 10)
		moves.Stop()
		if err := s.Seek(t.Context(), source.Offsets{p: 0}); err != nil {
			t.Fatal(err)
		}
		read(10, 10)
		pace.learnt(source.Offsets{p: 20})
		read(10, 20)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := s.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait that ends: %v", err)
		}
		if s.pending != nil {
			t.Error("it keeps a batch")
		}
	})
}

// A model that another pipeline has learnt, which says nothing of how far it is, is not waited for; one that is not there yet is, for a while.
func TestPaceWithoutALearner(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p, begin := source.Partition{Topic: "t"}, time.Now()
			s := &pacedSource{
				Source: &numbered{p, 0, 3000}, partition: p, learner: never{}, patience: time.Hour, idle: time.Minute,
				behind: func() int64 { return 2000 }, young: func() bool { return true }, known: func() bool { return known },
			}
			for range 3 {
				if b, err := s.Read(t.Context()); err != nil || len(b.Messages) != 10 {
					t.Fatal(len(b.Messages), err)
				}
			}
			if took := time.Since(begin); known && took > paceLook || !known && took != pacePatience {
				t.Errorf("known: %v; it takes %v", known, took)
			}
		})
	}
}

// never is a learner that never begins.
type never struct{}

func (never) at(context.Context, source.Partition) (int64, <-chan struct{}) { return -1, nil }
