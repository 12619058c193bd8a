package learn

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// replaceBy publishes a snapshot in the learner's place, as an import does, and returns the offsets that the
// learner stood at.
func replaceBy(t *testing.T, w *world, change func(*snapshot.Snapshot)) (uint64, source.Offsets, error) {
	t.Helper()
	_, stage := w.learnLoop(t, 2)
	k := w.open("learn")
	c, err := stage.Checkpoints.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	a := assembled(t, w)
	s, _ := a.Newest("m")
	s.Number, s.Parent, s.Version = s.Number+1, s.Version, s.Version+5000
	model := *s.Model
	model.Info.Rows = s.Version
	s.Model = &model
	if change != nil {
		change(s)
	}
	msgs, slots, err := snapshot.Messages(s, "snapshots", 3, a.Slots("m"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := stage.Replace(c, s, slots)
	if err != nil {
		return s.Version, c.Offsets, err
	}
	return s.Version, c.Offsets, k.Put(context.Background(), append(msgs, more...), source.Claim{})
}

// A model is imported while its learner runs: that one is fenced, and the next goes on from the import, where the
// first stood in the stream. Its versions never return to those before.
func TestLearnerGoesOnFromImport(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 60, 30)
	all := w.topics[fixtures.Events]
	w.topics[fixtures.Events] = all[:30]
	loop, running := w.learnLoop(t, 2)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	version, at, err := replaceBy(t, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.topics[fixtures.Events] = all
	work, err := running.Finish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := loop.Sink.Put(context.Background(), work.Messages, source.Claim{}); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("the learner that runs is not fenced: %v", err)
	}
	next, stage := w.learnLoop(t, 2)
	if got := next.Source.(*memorySource).next; got[fixtures.Events] != at[fixtures.Events] || got[fixtures.Events] == 0 {
		t.Errorf("it reads on at %v, want %v", got, at)
	}
	if rows := stage.learner.Info().Rows; rows != version {
		t.Errorf("it goes on with %d rows learnt, want %d", rows, version)
	}
	if err := next.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for _, e := range slices.Backward(assembled(t, w).List("m")) {
		if e.Fault != nil || e.Version <= last {
			t.Errorf("version %d after %d: %v", e.Version, last, e.Fault)
		}
		last = e.Version
	}
	if last <= version {
		t.Errorf("the newest version is %d: nothing was learnt on top of %d", last, version)
	}
}

// What the learner cannot go on from is refused, before anything is written.
func TestImportThatDoesNotFit(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 60, 30)
	loop, _ := w.learnLoop(t, 2)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, _, err := replaceBy(t, w, func(s *snapshot.Snapshot) { s.Features = []string{"x", "y", "z"} })
	fixtures.WantStop(t, err, "[a, b, c]", "[x, y, z]", "an id of its own")
	_, _, err = replaceBy(t, w, func(s *snapshot.Snapshot) {
		model := *s.Model
		model.Neighbours = nil
		s.Model = &model
	})
	fixtures.WantStop(t, err, "no neighbours", "an id of its own")
}
