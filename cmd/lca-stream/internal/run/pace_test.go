package run

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/source"
)

// numbered gives batches of ten messages of one partition, up to an end.
type numbered struct {
	partition source.Partition
	next, end int64
	record    arrow.Record // of each message; nil: it is a row of its own
}

func (s *numbered) Read(ctx context.Context) (source.Batch, error) {
	if s.next == s.end {
		<-ctx.Done()
		return source.Batch{}, ctx.Err()
	}
	b := source.Batch{}
	for range 10 {
		b.Messages = append(b.Messages, source.Message{Partition: s.partition, Offset: s.next, Record: s.record})
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
				pace, learns, reads := newProgress(nil), &numbered{p, 0, c.end, nil}, &numbered{p, 0, c.end, nil}
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
					Source: reads, partition: p, learner: pace, log: slog.New(slog.DiscardHandler), idle: time.Minute, known: func() bool { return false },
					behind: func() int64 { return c.end - reads.next }, young: func() bool { return c.young },
					catchUp: func(context.Context) error { caught++; return nil },
				}
				waits := c.young && c.end == end && c.learns > 0 && c.learns < time.Minute
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
					if learnt, _ := pace.at(ctx, p); waits && learnt < at { // of the last rows, too, which alone would be no backlog
						t.Fatalf("up to %d; learnt up to %d", at, learnt)
					}
				}
				if took := time.Since(begin); first < c.least || took > c.most {
					t.Errorf("the first rows took %v, want at least %v; all %v, want at most %v", first, c.least, took, c.most)
				}
				if waits != (caught > 0) {
					t.Errorf("the newest versions were read %d times", caught)
				}
			})
		})
	}
}

// What waits is given back when it takes long, so that offsets are renewed, and comes again after a step back.
func TestPacedSourceBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, pace := source.Partition{Topic: "t"}, newProgress(nil)
		reads := &numbered{p, 0, 3000, nil}
		s := &pacedSource{
			Source: reads, partition: p, learner: pace, log: slog.New(slog.DiscardHandler), idle: 3 * time.Second,
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
		time.AfterFunc(2*time.Second, func() { pace.learnt(source.Offsets{p: 11}) })
		read(0, 10)
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

// Messages of many rows are a backlog of rows. One waits no longer when the model has come to know enough meanwhile.
func TestPaceOfLargeMessages(t *testing.T) {
	rows := array.NewRecord(arrow.NewSchema(nil, nil), nil, 100)
	defer rows.Release()
	synctest.Test(t, func(t *testing.T) {
		p, pace, begin := source.Partition{Topic: "t"}, newProgress(nil), time.Now()
		reads := &numbered{p, 0, 200, rows}
		s := &pacedSource{
			Source: reads, partition: p, learner: pace, log: slog.New(slog.DiscardHandler), idle: time.Hour, known: func() bool { return false },
			behind: func() int64 { return reads.end - reads.next }, young: func() bool { return time.Since(begin) < 14*time.Second }, catchUp: func(context.Context) error { return nil },
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for at := int64(0); ctx.Err() == nil; at++ { // a message a second
				pace.learnt(source.Offsets{p: at})
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}()
		for _, want := range []time.Duration{10 * time.Second, 14 * time.Second, 14 * time.Second} {
			b, err := s.Read(ctx)
			if took := time.Since(begin); err != nil || len(b.Messages) != 10 || took < want || took > want+time.Second {
				t.Fatalf("%d messages after %v, %v; want 10 after %v", len(b.Messages), took, err, want)
			}
		}
	})
}

// A model that another pipeline has learnt, which says nothing of how far it is, is not waited for; one that is not there yet is, for a while.
func TestPaceWithoutALearner(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p, begin := source.Partition{Topic: "t"}, time.Now()
			s := &pacedSource{
				Source: &numbered{p, 0, 3000, nil}, partition: p, learner: never{}, log: slog.New(slog.DiscardHandler), every: time.Hour, idle: time.Minute,
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

// live has a backlog, and then 30 messages per second. A learner in another process commits every minute what is older than that.
type live struct {
	partition     source.Partition
	begin         time.Time
	backlog, next int64
	old           bool // all timestamps are
}

func (s *live) end() int64 { return s.backlog + int64(time.Since(s.begin)/time.Second)*30 }

func (s *live) at(context.Context, source.Partition) (int64, <-chan struct{}) {
	if past := time.Since(s.begin).Truncate(time.Minute); past > 0 {
		return s.backlog + int64((past-time.Minute)/time.Second)*30, nil
	}
	return 0, nil
}

func (s *live) Read(context.Context) (source.Batch, error) {
	for s.next >= s.end() {
		time.Sleep(time.Second)
	}
	b := source.Batch{}
	for ; s.next < s.end() && len(b.Messages) < 5000; s.next++ {
		m := source.Message{Partition: s.partition, Offset: s.next}
		if s.next >= s.backlog && !s.old {
			m.Time = s.begin.Add(time.Duration(s.next-s.backlog) * time.Second / 30)
		}
		b.Messages = append(b.Messages, m)
	}
	b.Claim.Next = source.Offsets{s.partition: s.next}
	return b, nil
}

func (s *live) Seek(context.Context, source.Offsets) error { return nil }

func (s *live) Close() error { return nil }

// A learner in another process is waited for in a backlog. What comes later is not: while it commits nothing, as much comes as would be a backlog again.
func TestPaceOfALiveStream(t *testing.T) {
	for _, c := range []struct {
		name         string
		backlog      int64
		old, process bool          // the process has a learner, of other partitions
		away, waits  time.Duration // the transform is away; then the first row takes
	}{
		{"backlog", 2000, false, false, 0, time.Minute},
		{"old timestamps", 2000, true, false, 0, time.Minute},
		{"next to a learner of others", 2000, true, true, 0, time.Minute},
		{"live from the start", 0, false, false, 0, time.Second},
		{"a restart", 0, false, false, 110 * time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := source.Partition{Topic: "t"}
				l := &live{partition: p, begin: time.Now(), backlog: c.backlog, old: c.old}
				const every = time.Minute
				s := &pacedSource{
					Source: l, partition: p, learner: l, log: slog.New(slog.DiscardHandler), every: every, fresh: pacePatience + 2*every, idle: time.Hour, known: func() bool { return true },
					behind: func() int64 { return l.end() - l.next }, young: func() bool { return true }, catchUp: func(context.Context) error { return nil },
				}
				if c.process {
					s.learner, s.fresh = newProgress(l), 0
				}
				time.Sleep(c.away)
				first := time.Duration(-1)
				for time.Since(l.begin) < 10*time.Minute {
					if _, err := s.Read(t.Context()); err != nil {
						t.Fatal(err)
					}
					if first < 0 {
						first = time.Since(l.begin) - c.away
					}
					if late := l.end() - l.next; late > 100 && time.Since(l.begin) > 3*time.Minute {
						t.Fatalf("%v later, %d rows wait", time.Since(l.begin), late)
					}
				}
				if first < c.waits || first > 2*c.waits {
					t.Errorf("the first row takes %v, want %v", first, c.waits)
				}
			})
		})
	}
}

// A partition whose learner has gone to another process is not where it was left here.
func TestProgressOfAPartitionThatIsGone(t *testing.T) {
	p := source.Partition{Topic: "t"}
	l := newProgress(&live{begin: time.Now().Add(-time.Minute), backlog: 2000})
	src := l.of(&numbered{p, 100, 3000, nil}, source.Offsets{p: 100})
	if at, moved := l.at(t.Context(), p); at != 100 || moved == nil {
		t.Errorf("%d here", at)
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	if at, moved := l.at(t.Context(), p); at != 2000 || moved != nil {
		t.Errorf("%d elsewhere", at)
	}
}

// A learner of the same process that cannot keep up makes a live stream no later, either.
func TestPaceOfASlowLearner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, pace, begin := source.Partition{Topic: "t"}, newProgress(nil), time.Now()
		l := &live{partition: p, begin: begin, backlog: 2000}
		s := &pacedSource{
			Source: l, partition: p, learner: pace, log: slog.New(slog.DiscardHandler), idle: time.Hour, known: func() bool { return false },
			behind: func() int64 { return l.end() - l.next }, young: func() bool { return true }, catchUp: func(context.Context) error { return nil },
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for at := int64(0); ctx.Err() == nil; at += 10 { // a third of what comes
				pace.learnt(source.Offsets{p: 1500 + at})
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}()
		for time.Since(begin) < 20*time.Minute {
			if _, err := s.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			if late := l.end() - l.next; late > 100 && time.Since(begin) > 10*time.Minute {
				t.Fatalf("%v later, %d rows wait", time.Since(begin), late)
			}
		}
	})
}
