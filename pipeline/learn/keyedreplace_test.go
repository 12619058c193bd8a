package learn

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// A replay may give a value a model again that was retired, or that nothing remembers: its versions are after the last of all, and the learner
// goes on from it. The same where the model has come back before, so that its checkpoint counts from a former last version.
func TestReplayAfterARetirement(t *testing.T) {
	rows := inShifts(5, 6, 2000, 1000, 0)
	for _, forget := range []int{0, 1} { // how many records of retired models remain; 0: all
		r := keyedRun{by: fleetPlaces[0], columns: []string{"a", "b"}, clock: lateClock(1), idle: testIdle, memory: 1 << 30, snapshotRows: 60, step: 20, mostRetired: forget}
		w := newWorld()
		w.fleetMessages(r.by, rows)
		w.learnFleet(t, r)
		states := w.keyedIndex(t, r)
		retired, back, gone := "", "", "pump 4/é"
		for value, s := range states.index {
			if s.retired {
				retired = value
			} else if c, err := states.Load(t.Context(), value); err != nil {
				t.Fatal(err)
			} else if c.Base > 0 {
				back = value
			}
			if value == gone {
				gone = ""
			}
		}
		if retired == "" || back == "" {
			t.Fatalf("retired %q, back %q: the rows prove too little", retired, back)
		}
		if forget > 0 && gone != "" {
			retired = gone // nothing is left of it
		}
		for _, value := range []string{back, retired} {
			w.replayOf(t, r, value)
		}
	}
}

// replayOf publishes a model for a value as a replay does, and lets the learner go on with new rows of it.
func (w *world) replayOf(t *testing.T, r keyedRun, value string) {
	t.Helper()
	stage, states := w.keyedStage(r), w.keyedIndex(t, r)
	id := modelkey.ID(states.ModelID, states.Partition, []byte(value))
	c, err := states.Load(t.Context(), value)
	if err != nil {
		t.Fatal(err)
	}
	last := states.Last(value)
	var a snapshot.Assembler
	for _, m := range w.topics[source.Partition{Topic: "snapshots", ID: states.Partition}] {
		if err := a.Add(m.Key, m.Value, m.Headers, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if c != nil {
		last = c.Published
	}
	if last == 0 {
		t.Fatalf("nothing is known of the versions of %q", value)
	}
	other, ok := a.Newest(a.Models()[0])
	if !ok {
		t.Fatal("there is no model")
	}
	s, model := *other, *other.Model
	s.Model, s.ModelID, s.Version = &model, id, last+1000
	model.Info.Rows = s.Version
	if newest, ok := a.Newest(id); ok {
		s.Number = newest.Number + 1
	}
	msgs, slots, err := snapshot.Messages(&s, "snapshots", 2, a.Slots(id))
	if err != nil {
		t.Fatal(err)
	}
	for i := range msgs {
		msgs[i].Partition = states.Partition
	}
	replaced, err := (&Learn{LearnConfig: LearnConfig{ModelID: states.ModelID, Learner: stage.Learner, Log: fixtures.Quiet()}}).ReplaceKeyed(states, c, &s, slots)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range append(msgs, replaced...) {
		at := source.Partition{Topic: m.Topic, ID: m.Partition}
		w.topics[at] = append(w.topics[at], m)
	}
	heard := w.keyedIndex(t, r).index[value].heard + 1000 // it is not idle
	rows := fleet(8, 1, 300)
	for i := range rows {
		if rows[i].key != "" {
			rows[i].key = value
		}
		rows[i].at = heard
	}
	r.clock = clockOf(rand.New(rand.NewPCG(9, 1)))
	w.fleetMessages(r.by, rows)
	w.learnFleet(t, r)
	valid := uint64(0)
	for _, row := range rows {
		if row.key != "" && !row.null {
			valid++
		}
	}
	w.publishedLives(t, func(string, uint64) uint64 { return 0 }) // versions grow
	if got := w.keyedIndex(t, r).index[value].version; got <= s.Version || got > s.Version+valid {
		t.Errorf("%q: version %d, after a replay of version %d and %d rows", value, got, s.Version, valid)
	}
}

// A model that a replay has put may have learnt nothing of the topic. That is no reason to retire it with its first row, where no models are too many.
func TestReplayedModelIsNotRetired(t *testing.T) {
	k := newWorld().keyedStage(keyedRun{by: fleetPlaces[0], columns: []string{"a", "b"}, clock: lateClock(1), memory: 1 << 30, snapshotRows: 60, step: 20})
	k.crowd.reset()
	m := &keyedModel{value: "press", one: &Learn{}}
	if err := k.begins(t.Context(), m); err != nil || !m.alive() || m.one == nil {
		t.Errorf("it is retired: %v", err)
	}
}
