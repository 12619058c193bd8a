package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// calm is a source that gives an empty batch every ten seconds, and a sink that notes when what is put.
type calm struct {
	idle
	ahead  source.Offsets // what batches claim
	began  time.Time
	at     []time.Duration
	put    []source.Offsets
	epoch  []source.Epochs // of what was put
	epochs source.Epochs   // of what batches claim
	marks  int
	fails  int
}

func (c *calm) Read(ctx context.Context) (source.Batch, error) {
	if !retry.Sleep(ctx, 10*time.Second) {
		return source.Batch{}, ctx.Err()
	}
	return source.Batch{Claim: source.Claim{Group: "g", Next: c.ahead.Clone(), Epochs: c.epochs}}, nil
}

func (c *calm) Seek(context.Context, source.Offsets) error { return nil }

func (c *calm) Close() error { return nil }

func (c *calm) Put(_ context.Context, msgs []sink.Message, claim source.Claim) error {
	c.at, c.put, c.epoch = append(c.at, time.Since(c.began)), append(c.put, claim.Next), append(c.epoch, claim.Epochs)
	c.marks += len(msgs)
	return nil
}

// gathering is a stage that has read on, and does not put yet.
type gathering struct{ idle }

func (gathering) Do(context.Context, source.Batch) (Work, error) { return Work{}, nil }

// Offsets that do not move are committed again: soon after the start, and then at the interval. What is
// committed is what was kept, also while a stage has read farther.
func TestRenewal(t *testing.T) {
	for name, stage := range map[string]Stage{"a transform": idle{}, "a learner": gathering{}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Hour+time.Minute)
				defer cancel()
				kept := source.Offsets{fixtures.Part(0): 7}
				c := &calm{ahead: kept, began: time.Now(), epochs: source.Epochs{fixtures.Part(0): 4}}
				if name == "a learner" {
					c.ahead, c.epochs = source.Offsets{fixtures.Part(0): 9}, source.Epochs{fixtures.Part(0): 5}
				}
				l := &Loop{
					Source: c, Sink: c, Stage: stage, Stats: stats.NewStats(), Log: fixtures.Quiet(), Start: kept, Epochs: source.Epochs{fixtures.Part(0): 4},
					Renew: &Renewal{Every: time.Hour, Markers: func(source.Offsets) []sink.Message { return make([]sink.Message, 1) }},
				}
				if err := l.Run(ctx); err != nil {
					t.Fatal(err)
				}
				if len(c.at) != 3 || c.at[0] != 10*time.Second || c.at[1] != time.Hour+10*time.Second || c.marks != 3 {
					t.Errorf("put at %v, %d markers", c.at, c.marks)
				}
				for i, next := range c.put {
					if next[fixtures.Part(0)] != 7 {
						t.Errorf("committed %v, want what was kept", next)
					}
					if epoch := c.epoch[i][fixtures.Part(0)]; epoch != 4 {
						t.Errorf("committed with the epochs %v, want those of the start", c.epoch[i])
					}
				}
			})
		})
	}
}

// busy is a source that is never quiet for an hour, a stage that commits each of its batches, and one more at the end.
type busy struct {
	calm
	next  int64
	marks []int64         // offsets of start markers
	when  []time.Duration // … when they were put
	told  []int64         // … of which the stage was told
}

func (b *busy) Read(ctx context.Context) (source.Batch, error) {
	if !retry.Sleep(ctx, 50*time.Minute) {
		return source.Batch{}, ctx.Err()
	}
	b.next++
	return source.Batch{Claim: source.Claim{Group: "g", Next: source.Offsets{fixtures.Part(0): b.next}}}, nil
}

func (b *busy) Do(context.Context, source.Batch) (Work, error) {
	return Work{Commit: true, Messages: make([]sink.Message, 1), Mark: b.next == 6}, nil
}

func (b *busy) Finish(context.Context) (Work, error) { return Work{Commit: true}, nil }

func (b *busy) Marked(next source.Offsets) { b.told = append(b.told, next[fixtures.Part(0)]) }

func (b *busy) Put(_ context.Context, msgs []sink.Message, claim source.Claim) error {
	if b.next == 4 && b.fails == 0 {
		b.fails++
		return errors.New("an answer is lost")
	}
	for _, m := range msgs {
		if m.Key != nil {
			b.marks, b.when = append(b.marks, claim.Next[fixtures.Part(0)]), append(b.when, time.Since(b.began))
		}
	}
	return nil
}

// Start markers have a time of their own: with the first commit after a start, with one each hour, with one for which the stage asks, and with the last.
// Commits that come more often do not keep them old.
func TestMarkersOfABusyFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 6*time.Hour+time.Minute)
		defer cancel()
		b := &busy{calm: calm{began: time.Now()}}
		l := &Loop{
			Source: b, Sink: b, Stage: b, Stats: stats.NewStats(), Log: fixtures.Quiet(), Grace: time.Second, Start: source.Offsets{fixtures.Part(0): 0},
			Renew: &Renewal{Every: time.Hour, Markers: func(source.Offsets) []sink.Message { return []sink.Message{{Key: []byte("start/g/events/0")}} }},
		}
		if err := l.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if want := []int64{1, 3, 5, 6, 7}; !slices.Equal(b.marks, want) || !slices.Equal(b.told, want) {
			t.Errorf("markers of %v were put at %v, and the stage knows of %v; want %v", b.marks, b.when, b.told, want)
		}
	})
}

// asked is a sink whose work another process takes after a while, without notice.
type asked struct {
	calm
	taken time.Duration
	times []time.Duration
}

func (a *asked) Check(context.Context) error {
	now := time.Since(a.began)
	a.times = append(a.times, now)
	switch {
	case now >= a.taken:
		return fmt.Errorf("asked: %w", sink.ErrFenced)
	case len(a.times) == 2:
		return errors.New("no answer")
	}
	return nil
}

// A loop that has nothing to put asks whether the work is still its own, and ends when it is not. One that puts
// need not ask.
func TestIdleLoopNoticesThatItIsFenced(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration
		puts  bool
		ends  time.Duration // 0: with its context
		asks  int
	}{
		{"idle", 5 * time.Second, false, time.Minute, 6},
		{"idle, asking less often than batches come", 25 * time.Second, false, time.Minute + 10*time.Second, 3},
		{"it never asks", 0, false, 0, 0},
		{"it puts", 15 * time.Second, true, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				a := &asked{calm: calm{ahead: source.Offsets{fixtures.Part(0): 7}, began: time.Now()}, taken: time.Minute}
				l := &Loop{Source: a, Sink: a, Stage: idle{}, Stats: stats.NewStats(), Log: fixtures.Quiet(), Start: source.Offsets{fixtures.Part(0): 7}, Check: c.every}
				if c.puts {
					l.Renew = &Renewal{Every: time.Second}
				}
				err := l.Run(ctx)
				if errors.Is(err, sink.ErrFenced) != (c.ends > 0) || c.ends > 0 && time.Since(a.began) != c.ends {
					t.Errorf("it ends after %v with %v, want after %v", time.Since(a.began), err, c.ends)
				}
				if len(a.times) != c.asks {
					t.Errorf("it asks at %v, want %d times", a.times, c.asks)
				}
			})
		})
	}
}
