package learn

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
)

// A record whose timestamp is anything goes on: outputs and dead letters have a time that their topics take.
func TestAnyTimestampGoesOn(t *testing.T) {
	w := learnt(t)
	now := time.UnixMilli(time.Now().UnixMilli())
	for i := range w.topics[fixtures.Events] {
		w.topics[fixtures.Events][i].Time = now
	}
	for i, ms := range fixtures.WildStamps {
		w.topics[fixtures.Events][i].Time = time.UnixMilli(ms)
		if i%4 == 3 {
			w.topics[fixtures.Events][i].Value = []byte("garbage")
		}
	}
	loop := w.transformLoop(t, fixtures.Events, 3)
	loop.Sink = &punctual{memorySink: loop.Sink.(*memorySink), known: true}
	if err := loop.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := append(slices.Clone(w.topics[fixtures.Out]), w.topics[fixtures.Dead]...)
	if len(got) != len(w.topics[fixtures.Events]) || len(w.topics[fixtures.Dead]) != 2 {
		t.Fatalf("%d outputs and %d dead letters of %d inputs", len(w.topics[fixtures.Out]), len(w.topics[fixtures.Dead]), len(w.topics[fixtures.Events]))
	}
	for _, m := range got {
		offset, _ := strconv.Atoi(fixtures.Header(m, "lca-source-offset"))
		if offset < len(fixtures.WildStamps) && fixtures.Header(m, "lca-source-timestamp") != strconv.FormatInt(fixtures.WildStamps[offset], 10) {
			t.Errorf("stamp %d: headers %v", fixtures.WildStamps[offset], m.Headers)
		}
	}
	strange := loop.Stats.Strangest(time.Now())
	if _, err := json.Marshal(strange); err != nil || len(strange) == 0 {
		t.Errorf("%d strange rows: %v", len(strange), err)
	}
	if n, seconds, _ := loop.Stats.EndToEnd.Read(); n == 0 || math.IsNaN(seconds) || seconds < 0 || math.IsInf(seconds, 0) {
		t.Errorf("%d times of %g s altogether", n, seconds)
	}
}

// A refusal names bounds that a topic has.
func TestRefusalNamesNoAbsurdBound(t *testing.T) {
	for _, e := range []*sink.TimestampError{
		{Known: true, Before: sink.AnyTime, After: time.Hour}, {Known: true, Before: time.Hour, After: sink.AnyTime}, {},
	} {
		if e.Topic, e.Err = "out", errors.New("refused"); strings.Contains(e.Error(), "2562047h") {
			t.Error(e)
		}
	}
}

// Models published at any time are followed, and what is told of them can be written as JSON.
func TestModelsOfAnyTime(t *testing.T) {
	from := learntSnapshots(t)
	for _, ms := range fixtures.WildStamps {
		w := newWorld()
		w.put(from.topics[snapshotLog]...)
		for i := range w.topics[snapshotLog] {
			w.topics[snapshotLog][i].Time = time.UnixMilli(ms)
		}
		loop := w.transformLoop(t, fixtures.Events, 3)
		m := loop.Stage.(*transform.Transform).Follow.Current()
		if m == nil {
			t.Fatalf("%d: no model", ms)
		}
		if _, err := json.Marshal(loop.Stats.ModelHistory()); err != nil {
			t.Errorf("%d: %v", ms, err)
		}
		if age := m.Age(time.UnixMilli(1_795_000_000_000)); ms > 1_795_000_000_000 && age > 0 {
			t.Errorf("a model of %d is %v old", ms, age)
		}
	}
}
