package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/internal/retry"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// scripted is a member of a group with one partition, whose sinks answer what the script says: one
// error for each opening of the partition, after which puts succeed.
type scripted struct {
	ctx    context.Context
	member string
	script []error
	opened []time.Duration // since the start
	begun  time.Time
	puts   int
	given  bool
}

func (s *scripted) Next(ctx context.Context) (Ownership, error) {
	if s.given {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.given = true
	return s, nil
}

func (s *scripted) Context() context.Context { return s.ctx }

func (s *scripted) Claim() source.Claim { return source.Claim{Group: "g", Member: s.member} }

func (s *scripted) Owned() []source.Partition { return []source.Partition{{Topic: "events"}} }

func (s *scripted) Done() {}

func (s *scripted) open(context.Context, source.Partition, source.Claim) (*Loop, error) {
	s.opened = append(s.opened, time.Since(s.begun))
	return &Loop{Source: endless{}, Sink: s, Stage: idle{}, Stats: stats.NewStats(), Log: fixtures.Quiet()}, nil
}

func (s *scripted) Put(_ context.Context, _ []sink.Message, claim source.Claim) error {
	if claim.Group == "" { // there is nothing to put, and nothing was left open
		return nil
	}
	if n := len(s.opened); n <= len(s.script) && s.script[n-1] != nil {
		return s.script[n-1]
	}
	s.puts++
	return nil
}

func (s *scripted) Close() error { return nil }

// endless is a source with a message a second, idle a stage that does nothing to them.
type endless struct{}

func (endless) Read(ctx context.Context) (source.Batch, error) {
	if !retry.Sleep(ctx, time.Second) {
		return source.Batch{}, ctx.Err()
	}
	return source.Batch{Claim: source.Claim{Group: "g"}}, nil
}

func (endless) Seek(context.Context, source.Offsets) error { return nil }

func (endless) Close() error { return nil }

type idle struct{}

func (idle) Do(context.Context, source.Batch) (Work, error) { return Work{Commit: true}, nil }

func (idle) Kept() {}

func (idle) Rewind(context.Context) (source.Offsets, error) { return nil, nil }

// What becomes of a partition whose loop fails.
func TestPartitionIsTakenBack(t *testing.T) {
	denied := fmt.Errorf("no right: %w", kafka.TopicAuthorizationFailed)
	passing := errors.New("the broker is away")
	for _, c := range []struct {
		name   string
		member string
		script []error
		opened int
		err    error // of Run, when it ends by itself
	}{
		{"fenced within a generation", "m", []error{sink.ErrFenced, nil}, 2, nil},
		{"fenced again and again", "m", []error{sink.ErrFenced, sink.ErrFenced, sink.ErrFenced, nil}, 4, nil},
		{"fenced, static: another process has it", "", []error{sink.ErrFenced}, 1, sink.ErrFenced},
		{"revoked: the next generation decides", "m", []error{sink.ErrRevoked}, 1, nil},
		{"no right: a person is needed", "m", []error{denied}, 1, kafka.TopicAuthorizationFailed},
		{"anything else is tried again by the loop itself", "m", []error{passing}, 1, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				s := &scripted{ctx: ctx, member: c.member, script: c.script, begun: time.Now()}
				err := (&Transforms{Members: s, Open: s.open, Log: fixtures.Quiet()}).Run(ctx)
				if !errors.Is(err, c.err) {
					t.Errorf("Run: %v, want %v", err, c.err)
				}
				if len(s.opened) != c.opened {
					t.Errorf("opened at %v, want %d times", s.opened, c.opened)
				}
				for i := 1; i < len(s.opened); i++ {
					if s.opened[i]-s.opened[i-1] < retakeAfter {
						t.Errorf("taken back after %v, want at least %v", s.opened[i]-s.opened[i-1], retakeAfter)
					}
				}
				if works := len(c.script) > 0 && c.script[len(c.script)-1] == nil; works != (s.puts > 0) {
					t.Errorf("%d puts succeeded", s.puts)
				}
			})
		})
	}
}
