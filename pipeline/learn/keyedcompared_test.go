package learn

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
)

// oldCopy is a world of two models whose checkpoints are from before their newest versions, but that of the model that was published last, which a replay
// has put back. It returns the keys of both.
func oldCopy(t *testing.T, r keyedRun) (w *world, newest, older string) {
	w = newWorld()
	w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
	w.learnFleet(t, r)
	at := source.Partition{Topic: "checkpoints", ID: 3}
	before := len(w.topics[at])
	w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
	w.learnFleet(t, r)
	newest, older = "pump 0", "pump 1"
	if strings.HasSuffix(w.newestSnapshot(t).ModelID, "1") {
		newest, older = older, newest
	}
	id := strings.ReplaceAll("fleet/a/3/"+older, " ", "%20") + "/"
	w.topics[at] = append(slices.Clone(w.topics[at][:before]), slices.DeleteFunc(w.topics[at][before:], func(m sink.Message) bool {
		return strings.HasPrefix(string(m.Key), id)
	})...)
	return w, newest, older
}

// learnOnce lets a stage learn what is there.
func (w *world) learnOnce(t *testing.T, r keyedRun, stage *KeyedLearn) error {
	t.Helper()
	defer stage.Close()
	at, err := stage.Rewind(t.Context())
	if err != nil {
		return err
	}
	src := &memorySource{w: w, next: at.Clone(), claim: source.Claim{Group: "g.learn", Generation: -1}, step: r.step}
	return (&pipeline.Loop{Source: src, Stage: stage, Sink: w.open("learners"), Stats: stage.Stats, Log: fixtures.Quiet()}).Run(t.Context())
}

// A model with an older checkpoint than its newest version publishes nothing and is not retired, although the newest model of the partition has its checkpoint. The
// others go on.
func TestOlderCheckpointNextToTheNewestModel(t *testing.T) {
	r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, clock: func() time.Time { return time.UnixMilli(0) }}
	for name, c := range map[string]struct {
		older bool // its rows come
		id    string
		stops bool
	}{
		"rows of the newest model":           {false, "2", false},
		"rows of the older model":            {true, "2", true},
		"… where brokers tell no ids":        {true, "", true},
		"… on the topic that was compared":   {true, "1", false}, // nothing but a foreign program can have made it older there
		"the newest, on a topic without ids": {false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			compared := r
			compared.topicID = "1"
			w, newest, older := oldCopy(t, compared)
			comes := newest
			if c.older {
				comes = older
			}
			w.fleetMessages(r.by, fleetRows(80, comes))
			now := r
			now.topicID = c.id
			err := w.learnOnce(t, now, w.keyedStage(now))
			if !c.stops {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			fixtures.WantStop(t, err, strings.ReplaceAll(older, " ", "%20"), "versions would be published again", "lca-stream replay")
		})
	}
	idle := r
	idle.idle = time.Minute
	w, newest, older := oldCopy(t, idle)
	rows := fleetRows(80, newest)
	for i := range rows {
		rows[i].at = 1e6
	}
	w.fleetMessages(r.by, rows)
	idle.clock = func() time.Time { return time.UnixMilli(2e6) }
	fixtures.WantStop(t, w.learnOnce(t, idle, w.keyedStage(idle)), strings.ReplaceAll(older, " ", "%20"), "versions would be published again")
}

// Snapshots are compared with checkpoints once for a topic, not at each start, and again after a replay.
func TestModelsAreComparedOnce(t *testing.T) {
	w := newWorld()
	r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, topicID: "1", clock: func() time.Time { return time.UnixMilli(0) }}
	w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
	w.learnFleet(t, r)
	for _, c := range []struct {
		why, id string
		first   func()
		reads   int
	}{
		{"they go on", "1", func() {}, 0},
		{"the topic is another one", "2", func() {}, 1},
		{"it was compared", "2", func() {}, 0},
		{"a replay came", "2", func() {
			w.topics[source.Partition{Topic: "checkpoints", ID: 3}] = append(w.topics[source.Partition{Topic: "checkpoints", ID: 3}], w.keyedStage(r).States.CompareAgain())
		}, 1},
		{"it was compared after that", "2", func() {}, 0},
	} {
		c.first()
		w.fleetMessages(r.by, fleetRows(80, "pump 0", "pump 1"))
		r.topicID = c.id
		stage, reads := w.keyedStage(r), 0
		open := stage.Snapshots.Open
		stage.Snapshots.Open = func(ctx context.Context, from int64) (checkpoint.TopicReader, error) {
			if from == 0 {
				reads++
			}
			return open(ctx, from)
		}
		if err := w.learnOnce(t, r, stage); err != nil {
			t.Fatalf("%s: %v", c.why, err)
		}
		if reads != c.reads {
			t.Errorf("%s: the snapshots were read %d times, want %d", c.why, reads, c.reads)
		}
	}
}

// The versions of a key go on after a retirement whose record is gone, as where the beginning of the checkpoint topic was deleted, as long as the snapshots
// that were deleted with it are on the topic.
func TestRetiredRecordIsLost(t *testing.T) {
	r := keyedRun{by: fleetPlaces[0], memory: 1 << 30, snapshotRows: 20, step: 5, idle: time.Minute, clock: func() time.Time { return time.UnixMilli(9e6) }}
	w := newWorld()
	at := func(rows []keyedRow, ms int64) []keyedRow {
		for i := range rows {
			rows[i].at = ms
		}
		return rows
	}
	newest := func(key string) (version uint64) {
		for _, m := range w.topics[source.Partition{Topic: "snapshots", ID: 3}] {
			if about, err := snapshot.About(m.Value); err == nil && strings.HasSuffix(about.ModelID, key) {
				if version > about.Version { // each of its chunks says so
					t.Errorf("version %d of %s after %d", about.Version, key, version)
				}
				version = about.Version
			}
		}
		return version
	}
	w.fleetMessages(r.by, at(fleetRows(80, "pump 0", "pump 1"), 0))
	w.fleetMessages(r.by, at(fleetRows(80, "pump 1"), 1e6))
	w.learnFleet(t, r)
	before, lost := newest("0"), 0
	checkpoints := source.Partition{Topic: "checkpoints", ID: 3}
	for i, m := range w.topics[checkpoints] {
		if strings.HasPrefix(string(m.Key), "fleet/a/3/pump%200/") {
			w.topics[checkpoints][i] = sink.Message{}
			lost++
		}
	}
	w.fleetMessages(r.by, at(fleetRows(80, "pump 0", "pump 1"), 1e6))
	w.learnFleet(t, r)
	if after := newest("0"); lost == 0 || before == 0 || after <= before {
		t.Errorf("%d records were lost, version %d before, and %d after that", lost, before, after)
	}
	w.learnFleet(t, r) // it goes on
}
