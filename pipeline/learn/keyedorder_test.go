package learn

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// The offset that a learner by key commits is not behind a row that no checkpoint has, whichever messages of a batch are passed over: those that
// cannot be used, and those that are in a checkpoint.
func TestCommittedOffsetByKey(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 3))
		w := newWorld()
		for range 300 {
			value := fmt.Sprintf(`[{"a": %d, "b": %d}]`, random.IntN(9), random.IntN(9))
			if random.IntN(4) == 0 {
				value = "no JSON"
			}
			key := fmt.Sprintf("pump %d", random.IntN(5))
			w.topics[w.fleet] = append(w.topics[w.fleet], sink.Message{Topic: "events", Key: []byte(key), Value: []byte(value), Time: time.UnixMilli(5)})
		}
		now := time.UnixMilli(0)
		r := keyedRun{by: fleetPlaces[0], columns: []string{"a", "b"}, memory: 1 << 30, soon: true, snapshotRows: 16, clock: func() time.Time { return now }}
		for range 4 {
			stage := w.keyedStage(r)
			at, err := stage.Rewind(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sk := w.open("learners")
			src := &memorySource{w: w, next: at.Clone(), claim: source.Claim{Group: "g.learn", Generation: -1}, step: 20 + random.IntN(20)}
			for range 1 + random.IntN(5) {
				b, err := src.Read(t.Context())
				if err != nil {
					break
				}
				work, err := stage.Do(t.Context(), b)
				if err != nil {
					t.Fatal(err)
				}
				wantBehindNothing(t, stage, work.Next[w.fleet])
				b.Claim.Next = work.Next
				if err := sk.Put(t.Context(), work.Messages, b.Claim); err != nil {
					t.Fatal(err)
				}
				stage.Kept()
				b.Release()
				now = now.Add(time.Duration(random.IntN(20)) * time.Second)
			}
			stage.Close()
		}
	}
}

// wantBehindNothing compares an offset that is committed with the rows that are in no checkpoint.
func wantBehindNothing(t *testing.T, k *KeyedLearn, committed int64) {
	t.Helper()
	for value, m := range k.models {
		if m.unsaved != nil && m.since < committed {
			t.Fatalf("offset %d is committed, and the row of %q at %d is in no checkpoint", committed, value, m.since)
		}
	}
	last := int64(-1)
	for e := k.unsaved.Front(); e != nil; e = e.Next() {
		since := e.Value.(*keyedModel).since
		if since < last {
			t.Fatalf("a row at %d comes after one at %d", since, last)
		}
		last = since
	}
}
