package learn

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/source"
)

// drawn returns the samples of all values of a range, by id, and how often the range was read. It fails where the models take more memory
// than they may.
func drawn(t *testing.T, w *world, by modelkey.By, memory int64, step int) (samples map[string]string, rounds int, noKey uint64) {
	t.Helper()
	k := &KeyedRange{
		By: by, Base: "fleet/a", Memory: memory, Columns: []string{"a", "b"}, Log: fixtures.Quiet(),
		Part:  func(p source.Partition) int32 { return p.ID },
		Begin: func(string, source.Partition) (RangeModel, error) { return NewSampleRange(100, stats.NewStats()), nil },
	}
	samples = map[string]string{}
	for {
		src := &memorySource{w: w, next: source.Offsets{keyedPartition: 0}, step: step}
		for {
			b, err := src.Read(t.Context())
			if errors.Is(err, source.ErrEnd) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.Do(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if k.bytes > memory && len(k.order) > 1 {
				t.Fatalf("%d models take %d bytes, and may take %d", len(k.order), k.bytes, memory)
			}
		}
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
