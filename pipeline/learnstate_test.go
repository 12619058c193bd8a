package pipeline

import (
	"context"
	"testing"

	"github.com/lca-stream/lca-stream/source"
)

// A learner that reads fewer partitions than the one before it, because it looked them up before one was
// added, or is told to, keeps the offsets of the others: whoever reads them next learns nothing twice.
func TestLearnerKeepsOffsetsItDoesNotRead(t *testing.T) {
	w := newWorld()
	w.events(t, 2, 14, 30)
	all, _ := w.learnLoop(t, 2)
	if err := all.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	one, stage := w.learnLoop(t, 2)
	own := source.Partition{Topic: "events"}
	stage.Start = func(context.Context, source.Offsets) (source.Offsets, error) { return source.Offsets{own: 0}, nil }
	start, err := stage.Rewind(t.Context())
	if err != nil || len(start) != 1 || start[own] != 7 {
		t.Fatalf("it reads %v, error %v; want %v from 7", start, err, own)
	}
	if err := one.Source.Seek(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	if err := one.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, stage = w.learnLoop(t, 2)
	for p, next := range stage.offsets {
		if next != 7 {
			t.Errorf("the next learner reads %v from %d, want 7", p, next)
		}
	}
}
