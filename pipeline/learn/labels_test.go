package learn

import (
	"bytes"
	"context"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/source"
)

// The output of one lca-stream is the input of another: each of our headers is there once, and is of the
// second. The same holds for dead letters, and for a chain of three.
func TestHeadersOfAChain(t *testing.T) {
	w := learnt(t)
	upstream := []source.Header{
		reject.Text("lca-source-offset", "777"), reject.Text("traceparent", "00"), reject.Text("lca-error", "old"), reject.Text("content-type", "x"),
		reject.Text("lca-model-id", "first"), reject.Text("lca-upstream-model-id", "zeroth"), reject.Text("lcamodel", "no prefix of ours"),
	}
	for i := range w.topics[fixtures.Events] {
		w.topics[fixtures.Events][i].Headers = upstream
	}
	w.topics[fixtures.Events][3].Value = []byte("garbage")
	w.topics[fixtures.Events][5].Value = nil
	if err := w.transformLoop(t, fixtures.Events, 4).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]source.Header{"output": w.topics[fixtures.Out][0].Headers, "dead letter": w.topics[fixtures.Dead][0].Headers, "tombstone": w.topics[fixtures.Out][4].Headers} {
		seen := map[string]string{}
		for _, h := range got {
			if old, twice := seen[h.Key]; twice {
				t.Errorf("%s: %s is there twice: %s, %s", name, h.Key, old, h.Value)
			}
			seen[h.Key] = string(h.Value)
		}
		kept := map[string]string{
			"lca-upstream-source-offset": "777", "lca-upstream-error": "old", "lca-upstream-model-id": "first", "traceparent": "00", "lcamodel": "no prefix of ours",
		}
		for key, want := range kept {
			if seen[key] != want {
				t.Errorf("%s: %s is %q, want %q", name, key, seen[key], want)
			}
		}
		if seen["lca-source-offset"] == "777" || seen["lca-source-topic"] != "events" || seen["lca-model-id"] == "first" {
			t.Errorf("%s: ours are %v", name, seen)
		}
	}
}

// A message without rows has no output and is no dead letter, before and after the first model: it is counted.
func TestNoRows(t *testing.T) {
	var schema bytes.Buffer
	if err := ipc.NewWriter(&schema, ipc.WithSchema(arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Float32}}, nil))).Close(); err != nil {
		t.Fatal(err)
	}
	for name, model := range map[string]bool{"with a model": true, "without": false} {
		w := newWorld()
		w.events(t, 1, 14, 30)
		if model {
			learn, _ := w.learnLoop(t, 2)
			if err := learn.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		w.topics[fixtures.Events][4].Value, w.topics[fixtures.Events][7].Value = []byte("[]"), schema.Bytes()
		loop := w.transformLoop(t, fixtures.Events, 3)
		loop.Stage.(*transform.Transform).UntilModel = transform.PassThrough
		if err := loop.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if n := loop.Stats.Tables().Passed["no_rows"]; n != 2 || len(w.topics[fixtures.Out]) != 12 || len(w.topics[fixtures.Dead]) != 0 {
			t.Errorf("%s: %d counted, %d outputs, %d dead letters", name, n, len(w.topics[fixtures.Out]), len(w.topics[fixtures.Dead]))
		}
	}
}

// A null value goes on in its place, with key and headers, without a model; the learner passes over it.
func TestTombstonesGoOn(t *testing.T) {
	w := newWorld()
	w.events(t, 1, 14, 30)
	for _, i := range []int{0, 4, 5, 13} {
		w.topics[fixtures.Events][i].Value = nil
	}
	learn, _ := w.learnLoop(t, 2)
	if err := learn.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	loop := w.transformLoop(t, fixtures.Events, 3)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for i, m := range w.topics[fixtures.Events] {
		want = append(want, string(m.Key))
		o := w.topics[fixtures.Out][i]
		got = append(got, string(o.Key))
		if (m.Value == nil) != (o.Value == nil) {
			t.Errorf("record %d: null in %v, out %v", i, m.Value == nil, o.Value == nil)
		}
		if m.Value == nil && (fixtures.Header(o, "traceparent") != fixtures.Header(m, "traceparent") || fixtures.Header(o, "lca-source-topic") != "events" || fixtures.Header(o, "lca-model-version") != "" || !o.Time.Equal(m.Time)) {
			t.Errorf("record %d has headers %v", i, o.Headers)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-in +out):\n%s", diff)
	}
	if n := loop.Stats.Tables().Passed["tombstone"]; n != 4 {
		t.Errorf("%d tombstones counted", n)
	}
}
