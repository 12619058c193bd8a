package learn

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
)

// A key that some JSON objects lack is a null of their rows, which source.on_invalid is about. It is no reason to set
// the message aside, whichever rows it has.
func TestAbsentKeysAreNull(t *testing.T) {
	for name, value := range map[string]string{
		"one of three":       `{"a": 1, "c": 3}`,
		"all":                `{"heartbeat": 1}`,
		"of one of its rows": `[{"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}]`,
	} {
		t.Run(name, func(t *testing.T) {
			w := learnt(t)
			w.topics[fixtures.Events][4].Value = []byte(value)
			if err := w.transformLoop(t, fixtures.Events, 3).Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if len(w.topics[fixtures.Dead]) != 0 || len(w.topics[fixtures.Out]) != len(w.topics[fixtures.Events]) {
				t.Fatalf("%d dead letters and %d outputs of %d inputs", len(w.topics[fixtures.Dead]), len(w.topics[fixtures.Out]), len(w.topics[fixtures.Events]))
			}
			rec := fixtures.ReadStream(t, w.topics[fixtures.Out][4].Value)
			if rec.Schema().HasMetadata() {
				t.Errorf("the output has metadata %v", rec.Schema().Metadata())
			}
			lca := rec.Column(rec.Schema().FieldIndices("lca")[0])
			if last := lca.Len() - 1; !lca.IsNull(last) || lca.NullN() != 1 {
				t.Errorf("coordinates of %s: %v", value, lca)
			}
		})
	}
}

// A name that no message has is misspelt: there will never be a model, so the learner ends with what was meant. One
// that comes late does not end it.
func TestMisspeltFeaturesEndTheLearner(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages int
		row      func(i int) string
		want     string
		waits    string
	}{
		{"misspelt", neverThere, func(int) string { return `{"a":1,"tmep":2}` }, `from events/0 at offset 0 on: minibatch: column "temp": is not in the record, which has 2 columns ("a" float64, "tmep" float64): did you mean "tmep"?`, ""},
		{"misspelt, and few messages", neverThere - 1, func(int) string { return `{"a":1,"tmep":2}` }, "", `did you mean "tmep"?`},
		{"text", neverThere, func(int) string { return `{"a":1,"temp":"21.5"}` }, `none of 100 messages has a number, from events/0 at offset 0 on: minibatch: column "temp": has type utf8, which is not a number`, ""},
		{"an object", neverThere, func(int) string { return `[{"a":1,"temp":{}},{"temp":null},{"temp":"x"}]` }, `"temp": has type utf8, which is not a number`, ""},
		{"text, and few messages", neverThere - 1, func(int) string { return `{"a":1,"temp":"21.5"}` }, "", `"temp": has type utf8`},
		{"a number comes late", neverThere + 20, func(i int) string {
			if i == neverThere-2 {
				return `[{"a":1,"temp":"x"},{"a":1,"temp":1}]`
			}
			return `{"a":1,"temp":"x"}`
		}, "", ""},
		{"comes late", neverThere + 20, func(i int) string {
			if i == neverThere-2 {
				return `{"temp":1}`
			}
			return `{"a":1}`
		}, "", "null, text, NaN or infinite"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.topics[fixtures.Events] = nil
			w.jsonRows(c.messages, 1, c.row)
			loop, stage := w.learnLoop(t, 3, func(l *Learn) { l.Columns = []string{"a", "temp"} })
			err := loop.Run(context.Background())
			var stop *reject.Stop
			var feature *minibatch.FeatureError
			switch {
			case c.want == "" && (err != nil || !strings.Contains(stage.Stats.Waiting().String(), c.waits)):
				t.Errorf("ended with %v; it waits: %v, want %q", err, stage.Stats.Waiting(), c.waits)
			case c.want != "" && (!errors.As(err, &stop) || !errors.As(err, &feature) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("ended with %v, want a stop that asks %q", err, c.want)
			}
		})
	}
}
