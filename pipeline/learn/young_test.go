package learn

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// A learner that is started again between young versions publishes the same bytes; one without a checkpoint goes on from the newest of them. The row model comes when
// its rows suffice, and has no parent.
func TestYoungVersionsOverRestarts(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	rows := make([]string, 1200)
	for i := range rows {
		rows[i] = twoColumns(r.NormFloat64(), r.NormFloat64())
	}
	learnt := func(restarts, forgets bool) (all []*snapshot.Snapshot, values [][]byte) {
		w := newWorld()
		w.topics[fixtures.Events] = nil
		w.jsonRows(12, 100, func(i int) string { return rows[i] })
		input := w.topics[fixtures.Events]
		checkpoints := source.Partition{Topic: "checkpoints"}
		for n := range input {
			if !restarts && n < len(input)-1 {
				continue
			}
			w.topics[fixtures.Events] = input[:n+1]
			if forgets && n == 4 {
				delete(w.topics, checkpoints)
			}
			loop, _ := w.learnLoop(t, 1, func(l *Learn) {
				l.Learner.Minibatch, l.Learner.WarmupRows, l.Learner.Neighbours = 100, 700, 300
				if forgets && n == 4 {
					l.WarmStart = all[len(all)-1]
				}
				l.OnSnapshot = func(s *snapshot.Snapshot) { all = append(all, s) }
			})
			if err := loop.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if w.topics[checkpoints] == nil {
				t.Fatal("there are no checkpoints")
			}
		}
		for _, m := range w.topics[source.Partition{Topic: "snapshots"}] {
			values = append(values, m.Value)
		}
		return all, values
	}
	want, bytes := learnt(false, false)
	var young []uint64
	for _, s := range want {
		if s.Model.Young() {
			young = append(young, s.Version)
		} else if len(young) > 0 && s.Version == 700 && s.Parent != 0 {
			t.Errorf("the first model has the parent %d", s.Parent)
		}
		if s.Young() != "" && s.Model.Info.Wanted != 700 {
			t.Errorf("version %d wants %d rows", s.Version, s.Model.Info.Wanted)
		}
	}
	if !slices.Equal(young, []uint64{100, 200, 300, 600}) || len(want) == len(young) {
		t.Errorf("young versions %v of %d", young, len(want))
	}
	if _, again := learnt(true, false); !slices.EqualFunc(again, bytes, func(a, b []byte) bool { return string(a) == string(b) }) {
		t.Errorf("%d messages of snapshots over restarts, and %d without, and they differ", len(again), len(bytes))
	}
	all, _ := learnt(true, true)
	last := uint64(0)
	for _, s := range all {
		if s.Version <= last {
			t.Errorf("version %d comes after %d", s.Version, last)
		}
		last = s.Version
	}
	if last := all[len(all)-1]; last.Model.Young() {
		t.Errorf("version %d, the last, is %s", last.Version, last.Young())
	}
}
