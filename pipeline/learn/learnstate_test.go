package learn

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// A learner that reads fewer partitions than the one before it, because it looked them up before one was
// added, or is told to, keeps the offsets of the others: the learner that reads them next learns nothing twice.
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

// Another pool ends the learner with words that say which keys these are and how to go on: with a new model
// id, from the beginning or from a snapshot. Other changes are taken.
func TestAnotherPool(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 14, 30)
	var snap *snapshot.Snapshot
	loop, stage := w.learnLoop(t, 2)
	stage.OnSnapshot = func(s *snapshot.Snapshot) { snap = s }
	if err := loop.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	restart := func(change func(*Learn)) error {
		_, stage := w.learnLoop(t, 2)
		change(stage)
		_, err := stage.Rewind(t.Context())
		return err
	}
	err := restart(func(l *Learn) { l.Learner.Neighbours = 50 })
	fixtures.WantStop(t, err, "lca.neighbours was 60 and is now 50", "snapshot.model_id", "snapshot export -o FILE", "snapshot import --file FILE")
	if err := restart(func(l *Learn) { l.Learner.Minibatch = 30 }); err != nil {
		t.Errorf("another minibatch: %v", err)
	}
	err = restart(func(l *Learn) {
		l.ModelID, l.Checkpoints.ModelID, l.Learner.Neighbours, l.WarmStart = "other", "other", 50, snap
	})
	if err != nil || snap == nil {
		t.Errorf("from a snapshot under another model id: %v", err)
	}
}

// The number of features comes with the data: one that no memory is there for is refused before any is taken.
func TestTooManyFeaturesForTheMemory(t *testing.T) {
	before := debug.SetMemoryLimit(256 << 20)
	defer debug.SetMemoryLimit(before)
	for dim, fits := range map[int]bool{1000: true, 20_000: false} {
		stage := &Learn{LearnConfig: LearnConfig{ModelID: "m", Learner: online.DefaultConfig(1)}}
		_, _, err := stage.newLearner(dim)
		var stop *reject.Stop
		if fits != (err == nil) || !fits && (!errors.As(err, &stop) || !strings.Contains(err.Error(), "20000 features") || !strings.Contains(stop.Remedy, "source.features")) {
			t.Errorf("%d features: %v", dim, err)
		}
	}
}
