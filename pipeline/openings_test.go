package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// shifts hands out one ownership after the other, the next when the test ends the one before.
type shifts struct {
	owned [][]source.Partition
	end   []context.CancelFunc
	ask   chan struct{} // unless nil, each ownership waits for a word on it
}

type shift struct {
	ctx   context.Context
	parts []source.Partition
}

func (s *shifts) Next(ctx context.Context) (Ownership, error) {
	if s.ask != nil {
		select {
		case <-s.ask:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n := len(s.end)
	if n == len(s.owned) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	own, cancel := context.WithCancel(ctx)
	s.end = append(s.end, cancel)
	return shift{own, s.owned[n]}, nil
}

func (s shift) Context() context.Context { return s.ctx }

func (s shift) Claim() source.Claim { return source.Claim{Member: "m"} }

func (s shift) Owned() []source.Partition { return s.parts }

func (s shift) Done() {}

// A member is ready once all its partitions are open, or when it has none; not between two generations.
func TestReadyWhenAllPartitionsAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		counts := stats.NewStats()
		want := func(when string, r stats.Readiness) {
			t.Helper()
			synctest.Wait()
			if got := counts.Ready(); got != r {
				t.Errorf("%s: %+v, want %+v", when, got, r)
			}
		}
		parts := []source.Partition{{ID: 0}, {ID: 1}, {ID: 2}}
		s := &shifts{owned: [][]source.Partition{parts, nil, parts[:1]}}
		open := make(chan struct{})
		w := &Transforms{Members: s, Log: fixtures.Quiet(), Stats: counts, Open: func(ctx context.Context, p source.Partition, _ source.Claim) (*Loop, error) {
			select {
			case <-open:
				return &Loop{Source: endless{}, Stage: idle{}, Sink: &scripted{opened: []time.Duration{0}}, Stats: counts, Log: fixtures.Quiet()}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		want("at first", stats.Readiness{Reason: "opening partitions: 0 of 3 are open"})
		open <- struct{}{}
		want("after one", stats.Readiness{Reason: "opening partitions: 1 of 3 are open"})
		open <- struct{}{}
		open <- struct{}{}
		want("after all", stats.Readiness{Ready: true})
		s.end[0]()
		time.Sleep(2 * time.Second) // of the bubble: the loops see the end at their next read
		want("more instances than partitions", stats.Readiness{Ready: true, Reason: "standby: no partitions"})
		counts.SetBroker(stats.Readiness{Reason: "no broker has answered"})
		want("no broker", stats.Readiness{Reason: "no broker has answered"})
		counts.SetBroker(stats.Readiness{Ready: true})
		want("a broker again", stats.Readiness{Ready: true, Reason: "standby: no partitions"})
		counts.SetTopics(stats.Readiness{Reason: "topic out is missing"})
		want("an output that is gone", stats.Readiness{Reason: "topic out is missing"})
		counts.SetTopics(stats.Readiness{Ready: true})
		s.end[1]()
		want("the next generation", stats.Readiness{Reason: "opening partitions: 0 of 1 are open"})
		open <- struct{}{}
		want("is open", stats.Readiness{Ready: true})
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		want("at the end", stats.Readiness{Reason: "waiting for partitions"})
	})
}
