package pipeline

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// steps notes what a take-over does, and fails one step.
type steps struct {
	idle
	fails string
	done  []string
}

func (s *steps) step(name string) error {
	s.done = append(s.done, name)
	if name == s.fails {
		return fixtures.ErrCrash
	}
	return nil
}

func (s *steps) Rewind(context.Context) (source.Offsets, error) { return nil, s.step("rewind") }

func (s *steps) Put(context.Context, []sink.Message, source.Claim) error {
	return s.step("put")
}

func (s *steps) Close() error { return s.step("close") }

func (s *steps) takeover() *Takeover {
	return &Takeover{
		Fence:   func(context.Context) (Sink, error) { return s, s.step("fence") },
		Stage:   func(Sink) (Stage, error) { return s, s.step("stage") },
		CatchUp: func(context.Context) error { return s.step("catch up") },
		Read:    func(context.Context, source.Offsets) (Source, error) { return endless{}, s.step("read") },
	}
}

// Nothing of a former owner is read before it is fenced (invariant 5), and nothing stays open after a fault.
func TestTakeoverOrder(t *testing.T) {
	order := []string{"fence", "stage", "rewind", "catch up", "read"}
	s := &steps{}
	if _, err := s.takeover().Open(t.Context()); err != nil || !slices.Equal(s.done, order) {
		t.Errorf("%v, error %v; want %v", s.done, err, order)
	}
	for i, step := range order {
		s := &steps{fails: step}
		loop, err := s.takeover().Open(t.Context())
		want := slices.Clone(order[:i+1])
		if step != "fence" {
			want = append(want, "close")
		}
		if !errors.Is(err, fixtures.ErrCrash) || loop != nil || !slices.Equal(s.done, want) {
			t.Errorf("%q fails: %v, error %v; want %v", step, s.done, err, want)
		}
	}
}
