package pipeline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// calm is a source that gives an empty batch every ten seconds, and a sink that notes when what is put.
type calm struct {
	idle
	ahead source.Offsets // what batches claim
	began time.Time
	at    []time.Duration
	put   []source.Offsets
	marks int
}

func (c *calm) Read(ctx context.Context) (source.Batch, error) {
	if !sleep(ctx, 10*time.Second) {
		return source.Batch{}, ctx.Err()
	}
	return source.Batch{Claim: source.Claim{Group: "g", Next: c.ahead.Clone()}}, nil
}

func (c *calm) Seek(context.Context, source.Offsets) error { return nil }
func (c *calm) Close() error                               { return nil }

func (c *calm) Put(_ context.Context, msgs []sink.Message, claim source.Claim) error {
	c.at, c.put = append(c.at, time.Since(c.began)), append(c.put, claim.Next)
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
				kept := source.Offsets{at(0): 7}
				c := &calm{ahead: kept, began: time.Now()}
				if name == "a learner" {
					c.ahead = source.Offsets{at(0): 9}
				}
				l := &Loop{
					Source: c, Sink: c, Stage: stage, Stats: NewStats(), Log: quiet(), Start: kept,
					Renew: &Renewal{Every: time.Hour, Markers: func(source.Offsets) []sink.Message { return make([]sink.Message, 1) }},
				}
				if err := l.Run(ctx); err != nil {
					t.Fatal(err)
				}
				if len(c.at) != 3 || c.at[0] != 10*time.Second || c.at[1] != time.Hour+10*time.Second || c.marks != 3 {
					t.Errorf("put at %v, %d markers", c.at, c.marks)
				}
				for _, next := range c.put {
					if next[at(0)] != 7 {
						t.Errorf("committed %v, want what was kept", next)
					}
				}
			})
		})
	}
}
