package learn

import (
	"fmt"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/source"
)

// A partition keeps the models of the values that were heard of last. Those of others begin again with their next rows, wherever the batches end: what is
// learnt of each is what a topic with its rows alone gives, after its last version.
func TestModelsAreBounded(t *testing.T) {
	for _, by := range fleetPlaces {
		for _, idle := range []time.Duration{0, testIdle} {
			t.Run(fmt.Sprintf("%v, idle %v", by, idle), func(t *testing.T) {
				rows := inShifts(4, 24, 1500, 1000, 0)
				r := keyedRun{by: by, columns: []string{"a", "b"}, clock: lateClock(1), idle: idle, most: 8}
				want := livesAlone(t, r, keyedPartition, inPlaces(by, rows))
				lives, alive := 0, 0
				for _, of := range want {
					lives += len(of)
					if !of[len(of)-1].retired {
						alive++
					}
				}
				if lives < 2*len(want) || alive > r.most+int(countEvery(r.most))*7 {
					t.Fatalf("%d lives of %d models, %d at the end: the rows prove too little", lives, len(want), alive)
				}
				for seed := range uint64(3) {
					r.memory, r.snapshotRows, r.step = 1<<(10+10*seed), 60, 1+int(40*seed)
					w := newWorld()
					w.fleetMessages(by, rows)
					w.learnFleet(t, r)
					want.check(t, w, r)
				}
			})
		}
	}
}

// The same where any call fails, before or after its effect, and rows come again that other models hold the committed offset for.
func TestBoundedModelsCrash(t *testing.T) {
	rows := inShifts(6, 8, 500, 5000, 0)
	for i := 0; i < len(rows); i += 30 { // one that never has enough rows to be saved
		rows[i].key = "rare"
	}
	for _, how := range []keyedRun{{memory: 60 << 10, step: 12}, {memory: 1 << 30, step: 12, seldom: true}, {memory: 1 << 30, step: 150, seldom: true}} {
		how.most = 5
		t.Run(fmt.Sprintf("step %d, seldom saved %v", how.step, how.seldom), func(t *testing.T) { testRetirementCrashes(t, rows, how) })
	}
}

// A producer that sends a new key with each message makes the topics no larger than the bound allows.
func TestFloodOfKeysIsBounded(t *testing.T) {
	const most, keys = 32, 2000
	rows := make([]keyedRow, keys)
	for i := range rows {
		rows[i] = keyedRow{key: fmt.Sprintf("stranger %d", i), a: float64(i % 7), b: float64(i % 5), at: int64(i)}
	}
	r := keyedRun{by: fleetPlaces[0], columns: []string{"a", "b"}, clock: lateClock(1), most: most, mostRetired: 20, memory: 1 << 20, snapshotRows: 60, step: 40, marks: true}
	w := newWorld()
	w.fleetMessages(r.by, rows)
	stage := w.learnFleet(t, r)
	w.compact(source.Partition{Topic: "checkpoints", ID: w.fleet.ID})
	index := w.keyedIndex(t, r)
	if n := len(index.index); n > 2*most+r.mostRetired+r.step {
		t.Errorf("%d models are known after %d keys, and at most %d are kept", n, keys, most)
	}
	if retired := stage.Memory.counts.Retired.Load(); retired < keys-3*most {
		t.Errorf("%d of %d models were retired", retired, keys)
	}
}
