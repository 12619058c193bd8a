package transform

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// Keys that come and go in all ways, also all at once, give a version of the subject for each key at most, whichever engine meets them, and each
// row is read as it was.
func TestKeysThatComeAndGo(t *testing.T) {
	const keys, messages = 10, 400
	s, rng := &schemaStore{schemas: map[int]*format.Schema{}}, rand.New(rand.NewPCG(1, 2))
	tr := avroTransform(t, s)
	tr.Engines = NewEngines(3, 1<<20)
	for i := range messages {
		row := map[string]any{"x": []float64{1, 2, 3, 4, 5, 6, 7, 8}}
		for k := range keys {
			if rng.IntN(2) == 0 {
				row[fmt.Sprint("k", k)] = float64(i)
			}
		}
		if i%20 == 19 {
			clear(row)
		}
		value, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{jsonMessage(t, string(value))}})
		if err != nil {
			t.Fatal(err)
		}
		got := s.row(t, fixtures.Stored(work.Messages[0]))
		maps.DeleteFunc(got, func(name string, v any) bool { return v == nil || strings.HasPrefix(name, "lca") })
		if back, err := json.Marshal(got); err != nil || string(back) != string(value) {
			t.Fatalf("message %d: %s, want %s", i, back, value)
		}
	}
	if len(s.registered) > keys+1 {
		t.Errorf("%d schemas for %d keys", len(s.registered), keys)
	}
}

// A text in a feature is set aside, because no registry would take its type in the place of the numbers'; those before and after it are written.
func TestTextInAFeatureIsNoField(t *testing.T) {
	s := &schemaStore{schemas: map[int]*format.Schema{}}
	tr := avroTransform(t, s)
	tr.DeadLetter = reject.DeadLetter{Topic: "dead", Window: 10, MaxRejects: 9}
	for _, c := range []struct {
		value string
		topic string
	}{
		{`{"x":[1,2,3,4,5,6,7,8],"s":"ok"}`, tr.Topic}, {`{"x":"n/a","s":"ok"}`, "dead"}, {`{"x":[1,2,3,4,5,6,7,"n/a"]}`, "dead"}, {`{"x":7}`, "dead"}, {`{"x":{}}`, "dead"}, {`{"x":null}`, tr.Topic}, {`{"x":[1,2,3,4,5,6,7,9],"s":"ok"}`, tr.Topic},
	} {
		work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{jsonMessage(t, c.value)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := work.Messages[0]; got.Topic != c.topic || c.topic == "dead" && fixtures.Header(got, "lca-error-code") != reject.CodeNotAvro {
			t.Errorf("%s goes to %s, %s; want %s", c.value, got.Topic, fixtures.Header(got, "lca-error-code"), c.topic)
		}
		tr.Kept()
	}
	if len(s.registered) != 1 {
		t.Errorf("%d schemas", len(s.registered))
	}
}

// Where each message has keys of its own, as where ids are keys, those beyond the bound are set aside, and others go on.
func TestEndlessKeys(t *testing.T) {
	const row = `{"x":[1,2,3,4,5,6,7,8]`
	var many strings.Builder
	for i := range encode.MostColumns - 2 {
		fmt.Fprintf(&many, `,"id%d":1`, i)
	}
	tr := avroTransform(t, &schemaStore{schemas: map[int]*format.Schema{}})
	for i, c := range []struct{ keys, topic string }{
		{many.String(), "out"}, {`,"one":1,"more":1`, "dead"}, {`,"one":1`, "out"}, {`,"id7":1`, "out"}, {`,"more":1`, "dead"}, {"", "out"},
	} {
		work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{jsonMessage(t, row+c.keys+"}")}})
		if err != nil {
			t.Fatal(err)
		}
		m := fixtures.Stored(work.Messages[0])
		if m.Topic != c.topic || c.topic == "dead" && (fixtures.Header(m, "lca-error-code") != reject.CodeNotAvro || !strings.Contains(fixtures.Header(m, "lca-error"), "more than 1000 keys")) {
			t.Errorf("message %d: %s %v", i, m.Topic, m.Headers)
		}
	}
}
