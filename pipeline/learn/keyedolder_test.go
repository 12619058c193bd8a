package learn

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// A learner by key whose checkpoints are gone, or from before the newest version that it has published, does not publish versions again. One that
// goes on from what it has saved does, and so does one next to models of another group.
func TestOlderCheckpointsByKey(t *testing.T) {
	checkpoints := source.Partition{Topic: "checkpoints", ID: 3}
	r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, clock: func() time.Time { return time.UnixMilli(0) }}
	learnt := func(t *testing.T) *world {
		w := newWorld()
		rows := fleetRows(160, "pump 0", "pump 1")
		w.fleetMessages(r.by, rows[:80])
		w.learnFleet(t, r)
		before := slices.Clone(w.topics[checkpoints])
		w.fleetMessages(r.by, rows[80:])
		w.learnFleet(t, r)
		w.topics[source.Partition{Topic: "before"}] = before
		return w
	}
	for name, c := range map[string]struct {
		lose  func(w *world)
		group string
		stops bool
	}{
		"nothing is lost":                        {func(*world) {}, "g", false},
		"the topic was deleted":                  {func(w *world) { w.topics[checkpoints] = nil }, "g", true},
		"the topic is an older copy":             {func(w *world) { w.topics[checkpoints] = w.topics[source.Partition{Topic: "before"}] }, "g", true},
		"the models are another group's":         {func(w *world) { w.topics[checkpoints] = nil }, "other", false},
		"the newest model was retired":           {retireNewest, "g", false},
		"the records of retired models are gone": {forgetNewest, "g", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := learnt(t)
			newest := w.newestSnapshot(t)
			w.publishedBy(c.group)
			c.lose(w)
			stage := w.keyedStage(r)
			_, err := stage.Rewind(t.Context())
			defer stage.Close()
			if !c.stops {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			fixtures.WantStop(t, err, newest.ModelID, "versions would be published again", "checkpoint.topic", "snapshot.model_id")
		})
	}
}

// Models whose checkpoints are gone do not begin again, whichever they are: the newest model is there still, because only the beginning of the topic was deleted, or because a
// replay has put it back. Models that have their checkpoints go on, until a value comes that has none.
func TestLostCheckpointsByKey(t *testing.T) {
	r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, clock: func() time.Time { return time.UnixMilli(0) }}
	lose := func(w *world, group string) (newest, gone string) {
		newest = w.newestSnapshot(t).ModelID
		gone = map[string]string{"fleet/a/3/pump%200": "fleet/a/3/pump%201", "fleet/a/3/pump%201": "fleet/a/3/pump%200"}[newest]
		for i, m := range w.topics[source.Partition{Topic: "checkpoints", ID: 3}] {
			if strings.HasPrefix(string(m.Key), gone+"/") {
				w.topics[source.Partition{Topic: "checkpoints", ID: 3}][i] = sink.Message{Key: []byte("start/of/another"), Value: []byte("x")}
			}
		}
		w.publishedBy(group)
		return strings.TrimPrefix(newest, "fleet/a/3/"), gone
	}
	for name, c := range map[string]struct {
		comes func(newest string) []string
		group string
		stops bool
	}{
		"rows of the model that is lost":     {func(string) []string { return []string{"pump 0", "pump 1"} }, "g", true},
		"rows of a new value alone":          {func(string) []string { return []string{"pump 2"} }, "g", true},
		"rows of the model that is there":    {func(newest string) []string { return []string{strings.ReplaceAll(newest, "%20", " ")} }, "g", false},
		"the lost model is of another group": {func(string) []string { return []string{"pump 0", "pump 1", "pump 2"} }, "other", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.fleetMessages(r.by, fleetRows(160, "pump 0", "pump 1"))
			w.learnFleet(t, r)
			newest, gone := lose(w, c.group)
			w.fleetMessages(r.by, fleetRows(80, c.comes(newest)...))
			stage := w.keyedStage(r)
			defer stage.Close()
			at, err := stage.Rewind(t.Context())
			if err == nil {
				src := &memorySource{w: w, next: at.Clone(), claim: source.Claim{Group: "g.learn", Generation: -1}, step: r.step}
				err = (&pipeline.Loop{Source: src, Stage: stage, Sink: w.open("learners"), Stats: stage.Stats, Log: fixtures.Quiet()}).Run(t.Context())
			}
			if !c.stops {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			fixtures.WantStop(t, err, gone, "versions would be published again", "lca-stream replay", "snapshot.model_id")
		})
	}
}

// publishedBy makes a group the one that has published all snapshots.
func (w *world) publishedBy(group string) {
	for _, m := range w.topics[source.Partition{Topic: "snapshots", ID: 3}] {
		for h := range m.Headers {
			if m.Headers[h].Key == reject.HeaderGroup {
				m.Headers[h].Value = []byte(group)
			}
		}
	}
}

// fleetRows are rows of some keys in turn.
func fleetRows(n int, keys ...string) (rows []keyedRow) {
	for i := range n {
		rows = append(rows, keyedRow{key: keys[i%len(keys)], a: float64(i % 7), b: float64(i % 5)})
	}
	return rows
}

// newestSnapshot is the newest of the partition.
func (w *world) newestSnapshot(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	var newest *snapshot.Snapshot
	for _, m := range w.topics[source.Partition{Topic: "snapshots", ID: w.fleet.ID}] {
		if about, err := snapshot.About(m.Value); err == nil {
			newest = about
		}
	}
	if newest == nil || newest.Version == 0 {
		t.Fatal("nothing was published")
	}
	return newest
}

// retireNewest puts the records of retired models in the places of all checkpoints.
func retireNewest(w *world) {
	w.retireAll(func(t *KeyedStates, id string, s *keyedState) []sink.Message {
		return t.retirement(id, s, 1, new(int64))
	})
}

// forgetNewest deletes all models, and leaves the record of the versions that they had.
func forgetNewest(w *world) {
	w.retireAll(func(t *KeyedStates, id string, s *keyedState) []sink.Message {
		return append(t.forgotten(id), t.floorMessage(s.version))
	})
}

func (w *world) retireAll(records func(*KeyedStates, string, *keyedState) []sink.Message) {
	p := source.Partition{Topic: "checkpoints", ID: w.fleet.ID}
	states := &KeyedStates{ReadBack: checkpoint.ReadBack{Topic: p.Topic}, Partition: p.ID, ModelID: "fleet/a"}
	for _, value := range []string{"pump%200", "pump%201"} {
		w.topics[p] = append(w.topics[p], records(states, "fleet/a/3/"+value, &keyedState{version: 1000, learnt: 1000})...)
	}
}

// Settings with which the models cannot go on are refused before a row comes: where only rows of new values came, their models began with the new
// settings, and no setting was right for all models any more.
func TestSettingsOfAllModelsByKey(t *testing.T) {
	w := newWorld()
	r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, clock: func() time.Time { return time.UnixMilli(0) }}
	w.fleetMessages(r.by, fleetRows(60, "pump"))
	w.learnFleet(t, r)
	other := r
	other.soon = true
	stage := w.keyedStage(other)
	defer stage.Close()
	_, err := stage.Rewind(t.Context())
	fixtures.WantStop(t, err, `model "fleet/a/3/pump" is of another configuration`, "lca.neighbours was 40 and is now 12", "lca-stream replay")
	if strings.Contains(err.Error(), "snapshot import") { // which there is not for these
		t.Errorf("the remedy is of one model for all rows: %v", err)
	}

	// Before any partition is taken they are refused as well: one without models would begin some with them.
	before := len(w.topics[source.Partition{Topic: "checkpoints", ID: 3}])
	for name, c := range map[string]struct {
		run    keyedRun
		refuse bool
	}{"other settings": {other, true}, "the same": {r, false}} {
		stage := w.keyedStage(c.run)
		if err := stage.Check(t.Context()); c.refuse {
			fixtures.WantStop(t, err, `model "fleet/a/3/pump" is of another configuration`)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.topics[source.Partition{Topic: "checkpoints", ID: 3}] = nil
	if err := w.keyedStage(other).Check(t.Context()); err != nil || before == 0 {
		t.Errorf("of %d records, without a checkpoint: %v", before, err)
	}
}
