package learn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// A column of numbers that says which model a row belongs to is no feature where source.features is empty, for the learner and for a replay: a
// message that has no other column of numbers is set aside and stops neither, and a list next to it is what is learnt.
func TestTheColumnOfModelsIsNoFeature(t *testing.T) {
	by := modelkey.By{Place: modelkey.Column, Name: "machine"}
	w, random := newWorld(), rand.New(rand.NewPCG(1, 2))
	put := func(text string) {
		w.topics[w.fleet] = append(w.topics[w.fleet], sink.Message{Topic: "events", Partition: w.fleet.ID, Value: []byte(text), Time: time.UnixMilli(5)})
	}
	put(`{"machine": 1}`)
	put(`{"machine": 2, "name": "x", "id": 7}`)
	for range 60 {
		a, b := random.NormFloat64(), random.NormFloat64()
		put(fmt.Sprintf(`{"machine": 1, "a": %v, "b": %v}`, a, b))
		put(fmt.Sprintf(`{"machine": 2, "v": [%v, %v, %v]}`, a, b, a-b))
	}
	want := map[string][]string{"fleet/a/3/1": {"a", "b"}, "fleet/a/3/2": {"v[0]", "v[1]", "v[2]"}}

	r := keyedRun{by: by, memory: 1 << 30, snapshotRows: 10, step: 5, clock: func() time.Time { return time.UnixMilli(0) }}
	w.learnFleet(t, r)
	checkpoints := w.keyedCheckpoints(t, r)
	for value, features := range map[string][]string{"1": want["fleet/a/3/1"], "2": want["fleet/a/3/2"]} {
		if c := checkpoints[value]; c == nil || !slices.Equal(c.Features, features) {
			t.Errorf("the model of %s is %+v, want features %q", value, c, features)
		}
	}

	k := &KeyedRange{
		By: by, Base: "fleet/a", Memory: 1 << 30, Log: fixtures.Quiet(),
		Part:  func(p source.Partition) int32 { return p.ID },
		Begin: func(string, source.Partition) (RangeModel, error) { return NewSampleRange(100, stats.NewStats()), nil },
	}
	src := &memorySource{w: w, next: source.Offsets{w.fleet: 0}, step: 5}
	for {
		b, err := src.Read(t.Context())
		if errors.Is(err, source.ErrEnd) {
			break
		}
		if err == nil {
			_, err = k.Do(t.Context(), b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range k.Models() {
		if _, features, _, err := key.Model.(*SampleRange).Matrix(); err != nil || !slices.Equal(features, want[key.ID]) {
			t.Errorf("a replay of %s learns %q, want %q: %v", key.ID, features, want[key.ID], err)
		}
	}
}
