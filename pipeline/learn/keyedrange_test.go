package learn

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/source"
)

// readRange gives the rows of a partition to a range. It fails where the models take more memory than they may.
func readRange(t *testing.T, w *world, k *KeyedRange, step int) {
	t.Helper()
	src := &memorySource{w: w, next: source.Offsets{keyedPartition: 0}, step: step}
	for {
		b, err := src.Read(t.Context())
		if errors.Is(err, source.ErrEnd) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Do(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if k.bytes > k.Memory && len(k.order) > 1 {
			t.Fatalf("%d models take %d bytes, and may take %d", len(k.order), k.bytes, k.Memory)
		}
	}
}

// drawn returns the samples of all values of a range, by id, and how often the range was read.
func drawn(t *testing.T, w *world, by modelkey.By, memory int64, step int) (samples map[string]string, rounds int, noKey uint64) {
	t.Helper()
	k := &KeyedRange{
		By: by, Base: "fleet/a", Memory: memory, Columns: []string{"a", "b"}, Log: fixtures.Quiet(),
		Part:  func(p source.Partition) int32 { return p.ID },
		Begin: func(string, source.Partition) (RangeModel, error) { return NewSampleRange(100, stats.NewStats()), nil },
	}
	samples = map[string]string{}
	for {
		readRange(t, w, k, step)
		for _, key := range k.Models() {
			x, features, seen, err := key.Model.(*SampleRange).Matrix()
			if _, twice := samples[key.ID]; twice || err != nil || seen != key.Rows {
				t.Errorf("%s: twice: %v, %d rows of %d, %v", key.ID, twice, seen, key.Rows, err)
			}
			samples[key.ID] = fmt.Sprint(features, seen, key.Unusable.Rows, x)
		}
		if !k.More() {
			return samples, k.Rounds(), k.NoKey
		}
		k.NextRound()
	}
}

// A model of a range sees all rows of its value and no others, in as many readings as memory makes necessary, wherever the value is and
// however the range is cut into batches.
func TestKeyedRange(t *testing.T) {
	rows := fleet(3, 12, 4000)
	var want map[string]string
	for _, text := range []string{"key", "header:machine", "column:machine"} {
		by, err := modelkey.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld()
		w.fleetMessages(by, rows)
		for _, memory := range []int64{1 << 30, 30_000, 1} {
			got, rounds, noKey := drawn(t, w, by, memory, 1+int(memory%7))
			if want == nil {
				want = got
			}
			if len(got) != len(want) || noKey == 0 {
				t.Errorf("%s: %d models, want %d; %d rows without a value", text, len(got), len(want), noKey)
			}
			for id, sample := range got {
				if sample != want[id] {
					t.Errorf("%s, %d bytes: %s: other rows", text, memory, id)
				}
			}
			if once := rounds == 1; once != (memory == 1<<30) || memory == 1 && rounds != len(want) {
				t.Errorf("%s, %d bytes: %d readings of %d models", text, memory, rounds, len(want))
			}
		}
	}
}

// What is learnt of a range is what the live learner has learnt of it, by source.on_invalid and by the stamps of the messages, too: a change is accepted after as
// long.
func TestRangeIsTheLiveLearner(t *testing.T) {
	rows := fleet(12, 3, 6000)
	for i := range rows {
		rows[i].at = int64(i/35+1) * time.Minute.Milliseconds()
		if rows[i].key == rows[0].key && i > len(rows)/2 {
			rows[i].a += 40
		}
	}
	for _, by := range fleetPlaces {
		for _, invalid := range []reject.OnInvalid{reject.NullRow, reject.RejectRow, reject.ImputeRow} {
			r := keyedRun{by: by, columns: []string{"a", "b"}, clock: func() time.Time { return time.UnixMilli(0) }, memory: 1 << 30, snapshotRows: 1 << 40, step: 20, invalid: invalid, acceptSpan: 30 * time.Minute.Milliseconds()}
			w := newWorld()
			w.fleetMessages(by, rows)
			live := w.learnFleet(t, r)
			var scratch online.Scratch
			k := &KeyedRange{
				By: by, Base: "fleet/a", Memory: 1 << 30, Columns: r.columns, Log: fixtures.Quiet(), Part: func(p source.Partition) int32 { return p.ID }, OnInvalid: invalid,
				Begin: func(id string, _ source.Partition) (RangeModel, error) {
					c := live.LearnConfig
					c.ModelID, c.Stats, c.Alarms, c.SnapshotEvery, c.CheckpointEvery = id, stats.NewStats(), transform.Alarms{}, 0, 0
					return NewLearnRange(c, &scratch), nil
				},
			}
			readRange(t, w, k, 30)
			saved := w.keyedCheckpoints(t, r)
			for _, key := range k.Models() {
				one := key.Model.(*LearnRange).one
				got, err := one.learner.AppendBinary(nil)
				want := saved[key.place.value]
				if err != nil || want == nil || !bytes.Equal(got, want.Learner) {
					t.Errorf("%v, %v: %s has learnt otherwise: %v", by, invalid, key.ID, err)
				}
			}
			never := newWorld()
			never.fleetMessages(by, rows)
			r.acceptSpan *= 1000
			if never.learnFleet(t, r); reflect.DeepEqual(never.keyedCheckpoints(t, r), saved) {
				t.Errorf("%v, %v: nothing was accepted: this proves too little", by, invalid)
			}
		}
	}
}
