package learn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// switching makes rows of a few machines that change what they do, so that their learners have alarms.
func switching(machines, rows int) []keyedRow {
	random := rand.New(rand.NewPCG(6, 7))
	all := make([]keyedRow, rows)
	for i := range all {
		m := random.IntN(machines)
		all[i] = keyedRow{key: fmt.Sprint("press ", m), a: random.NormFloat64(), b: random.NormFloat64()}
		if i > 1500 {
			all[i].a, all[i].b = all[i].a/20, all[i].b+all[i].a
		}
		all[i].null = random.IntN(5) == 0
	}
	return all
}

// written is what a run has put on a topic, by key: all values, once each. Alarms have no time.
func (w *world) written(t *testing.T, topic string) map[string][][]byte {
	t.Helper()
	all := map[string][][]byte{}
	for _, m := range w.topics[source.Partition{Topic: topic, ID: w.fleet.ID}] {
		if topic == "alarms" {
			m = withoutTime(t, m)
		}
		all[string(m.Key)] = append(all[string(m.Key)], m.Value)
	}
	return all
}

func withoutTime(t *testing.T, m sink.Message) sink.Message {
	t.Helper()
	var a transform.Alarm
	if err := json.Unmarshal(m.Value, &a); err != nil {
		t.Fatal(err)
	}
	a.Time = time.Time{}
	m.Value, _ = json.Marshal(a)
	return m
}

// The bytes of a key's snapshots, and what its alarms say, do not depend on where batches are cut, on what is in memory, or on crashes: a snapshot
// that rows make due has the place of the row that completes the minibatch, as without model.by.
func TestBatchCutChangesNoSnapshotOfAKey(t *testing.T) {
	for _, by := range fleetPlaces {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			r := keyedRun{by: by, columns: []string{"a", "b"}, snapshotRows: 60, seldom: true, clock: clockOf(rand.New(rand.NewPCG(1, 1)))}
			rows := switching(4, 3000)
			run := func(step int, memory int64, failAt int) (*world, *KeyedLearn) {
				w := newWorld()
				w.alarms = transform.Alarms{Topic: "alarms", Partition: w.fleet.ID}
				w.fleetMessages(by, rows)
				w.failAt = failAt
				r.step, r.memory = step, memory
				return w, w.learnFleet(t, r)
			}
			calm, _ := run(1, 1<<40, 0)
			snapshots, alarms := calm.written(t, "snapshots"), calm.written(t, "alarms")
			if len(snapshots) < 8 || len(alarms) < 2 {
				t.Fatalf("%d snapshot records, alarms of %d models: the run is too small to prove anything", len(snapshots), len(alarms))
			}
			for _, c := range []struct {
				step   int
				memory int64
				failAt int
			}{{7, 1 << 40, 0}, {200, 1 << 40, 0}, {1 << 20, 1 << 40, 0}, {5, 1, 0}, {90, 60 << 10, 0}, {11, 1 << 40, 60}, {11, 1, 120}} {
				w, stage := run(c.step, c.memory, c.failAt)
				if evicted := stage.Memory.counts.Evicted.Load(); c.memory == 1 && evicted == 0 || w.failed != (c.failAt > 0) {
					t.Errorf("%+v: %d models were evicted, failed: %v", c, evicted, w.failed)
				}
				sameWritten(t, fmt.Sprintf("%+v: snapshot", c), snapshots, w.written(t, "snapshots"))
				sameWritten(t, fmt.Sprintf("%+v: alarm", c), alarms, w.written(t, "alarms"))
			}
		})
	}
}

func sameWritten(t *testing.T, what string, want, got map[string][][]byte) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%s: %d keys, want %d", what, len(got), len(want))
	}
	for key, all := range want {
		for i, value := range all {
			if i >= len(got[key]) || !bytes.Equal(value, got[key][i]) {
				t.Errorf("%s %d of key %q differs, or is missing:\n%.400q, want\n%.400q", what, i, key, slices.Concat(got[key][min(i, len(got[key])):]...), value)
				return
			}
		}
		if len(got[key]) > len(all) {
			t.Errorf("%s: %d records of key %q, want %d", what, len(got[key]), key, len(all))
		}
	}
}
