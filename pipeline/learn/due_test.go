package learn

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/source"
)

// distinct counts the versions or checkpoints on a topic by their header.
func distinct(w *world, topic, name string) int {
	seen := map[string]bool{}
	for _, m := range w.topics[source.Partition{Topic: topic}] {
		if v := fixtures.Header(m, name); v != "" {
			seen[v] = true
		}
	}
	return len(seen)
}

// every_rows: 0 is by time alone: the first model, and then what the clock asks for. Rows are 1 800 in
// minibatches of 20, so that one with each would be 88 versions. Each snapshot brings a checkpoint, and the
// end of the stream one more.
func TestByTimeAlone(t *testing.T) {
	for _, c := range []struct {
		name                  string
		rows, each            uint64        // snapshot.every_rows, checkpoint.every_rows
		every                 time.Duration // both
		tick                  time.Duration // that passes with each message
		versions, checkpoints int
	}{
		{"by rows", 100, 60, 0, time.Second, 19, 37},
		{"nothing is due by rows, and the clock stands", 0, 0, time.Hour, 0, 1, 2},
		{"by the clock", 0, 0, 10 * time.Second, time.Second, 6, 7},
		{"snapshots by the clock, checkpoints by rows", 0, 60, 10 * time.Second, time.Second, 6, 31},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.events(t, 1, 60, 30)
			loop, stage := w.learnLoop(t, 1)
			stage.SnapshotRows, stage.CheckpointRows, stage.SnapshotEvery, stage.CheckpointEvery = c.rows, c.each, c.every, c.every
			now := time.UnixMilli(0)
			stage.Now = func() time.Time { return now }
			loop.Source = &ticking{Source: loop.Source, tick: func() { now = now.Add(c.tick) }}
			if err := loop.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if n := distinct(w, "snapshots", "lca-model-version"); n != c.versions {
				t.Errorf("%d versions, want %d", n, c.versions)
			}
			if n := distinct(w, "checkpoints", "lca-checkpoint"); n != c.checkpoints {
				t.Errorf("%d checkpoints, want %d", n, c.checkpoints)
			}
		})
	}
}

// ticking lets time pass with each Read.
type ticking struct {
	pipeline.Source
	tick func()
}

func (s *ticking) Read(ctx context.Context) (source.Batch, error) {
	s.tick()
	return s.Source.Read(ctx)
}

// A learner of a stream that pauses makes no model again whose version exists: with many columns that
// would take a core.
func TestIdleLearnerMakesNoModel(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 60, 30)
	loop, stage := w.learnLoop(t, 2)
	now := time.UnixMilli(0)
	stage.Now = func() time.Time { return now }
	stage.SnapshotEvery = 10 * time.Second
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	idle := func() {
		now = now.Add(time.Second)
		if work, err := stage.Do(context.Background(), source.Batch{}); err != nil || work.Commit {
			t.Fatalf("an idle learner puts %d messages: %v", len(work.Messages), err)
		}
	}
	for range 20 {
		idle()
	}
	// A model of three columns and 60 neighbours allocates more than 100 times.
	if n := testing.AllocsPerRun(20, idle); n > 5 {
		t.Errorf("%v allocations per second of idling: a model is made each time", n)
	}
}

// A checkpoint without a row, as of a learner that has looked for a misspelt name, binds no features. It goes on behind the messages that were read.
func TestMisspeltFeaturesBindNoModel(t *testing.T) {
	w := newWorld()
	w.topics[fixtures.Events] = nil
	w.jsonRows(neverThere-1, 1, func(i int) string { return fmt.Sprintf(`{"a":%d,"temp":%d}`, i%7, i%5) })
	loop, _ := w.learnLoop(t, 3, func(l *Learn) { l.Columns = []string{"a", "tmep", "c"} })
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	c, err := w.checkpoints().Peek(context.Background())
	if err != nil || c == nil || len(c.Features) != 3 {
		t.Fatalf("the checkpoint: %+v, %v", c, err)
	}
	w.jsonRows(200, 1, func(i int) string { return fmt.Sprintf(`{"a":%d,"temp":%d}`, i%7, i%5) })
	loop, stage := w.learnLoop(t, 3, func(l *Learn) { l.Columns = []string{"a", "temp"} })
	if err := stage.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if rows := stage.learner.Info().Rows; rows == 0 || rows > 200 {
		t.Errorf("%d rows learnt of 200", rows)
	}
	stage = w.learnStage(func(l *Learn) { l.Columns = []string{"a", "tmep"} })
	if err := stage.Check(context.Background()); err == nil {
		t.Error("features of a model with rows have changed")
	}
}

// The features that were learnt decide: fewer, more or others in source.features are refused, whatever
// their number, and none accepts what there is.
func TestChangedFeaturesAreRefused(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 14, 30)
	loop, _ := w.learnLoop(t, 2)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		columns []string
		refused bool
	}{
		{"the same", []string{"a", "b", "c"}, false},
		{"none: as they were", nil, false},
		{"one more", []string{"a", "b", "c", "d"}, true},
		{"one fewer", []string{"a", "b"}, true},
		{"another order", []string{"b", "a", "c"}, true},
		{"a list instead", []string{"v"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, stage := w.learnLoop(t, 2)
			stage.Columns = c.columns
			_, err := stage.Rewind(context.Background())
			if (err != nil) != c.refused {
				t.Fatalf("refused with %v", err)
			}
			if c.refused {
				fixtures.WantStop(t, err, "[a, b, c]", "source.features now says")
			}
		})
	}
}
