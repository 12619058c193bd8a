package transform

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// By a young model the columns of the last rows are those that the grown one with the same evaluator gives, in every format and layout, over rows that are null or
// lack features, and all others are null.
func TestYoungModelScoresLastRows(t *testing.T) {
	grown := modelsOf(t, 1)[0]
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 24 {
		policy, layout, as := []reject.OnInvalid{reject.NullRow, reject.ImputeRow}[i%2], encode.Layouts()[i/2%2], []encode.Format{encode.FormatJSON, encode.FormatArrow}[i/4%2]
		var batch source.Batch
		for k := range 12 {
			m := sink.Message{Topic: "events", Value: jsonRows(r, 1+20*(k%3), k%2 == 1), Headers: []source.Header{reject.Text("content-type", "application/json")}}
			batch.Messages = append(batch.Messages, fixtures.Decoded(fixtures.Events, int64(k), m))
		}
		c := keyedConfig(encode.OutputConfig{Column: "lca", Score: true, P: true, Recent: true, Why: 2, Imputed: policy == reject.ImputeRow, Layout: layout, Format: as}, policy, Hold)
		var all [2][]map[string]any
		for n, m := range []*lca.Model{grown, fixtures.Young(grown)} {
			one := transformAlone(c, snapshotOf(m, "x", 9), "m")
			work, err := one.Do(t.Context(), batch)
			if err != nil {
				t.Fatal(err)
			}
			for _, out := range work.Messages {
				if out.Topic == "out" {
					all[n] = append(all[n], rowsIn(t, fixtures.Stored(out))...)
				}
			}
			if got := source.LastHeader(work.Messages[0].Headers, reject.HeaderVersion); got != "9" {
				t.Fatalf("version %s", got)
			}
		}
		scored := compareYoung(t, fmt.Sprintf("%v, %v, %v", policy, layout, as), all[0], all[1])
		if scored == 0 || len(all[0]) == 0 {
			t.Fatalf("%d of %d rows are scored", scored, len(all[0]))
		}
	}
}

// compareYoung returns how many rows have a score of their last rows.
func compareYoung(t *testing.T, name string, grown, young []map[string]any) (scored int) {
	t.Helper()
	if len(grown) != len(young) {
		t.Fatalf("%s: %d and %d rows", name, len(grown), len(young))
	}
	for i := range grown {
		for key, value := range young[i] {
			switch {
			case strings.HasPrefix(key, "lca_recent"):
				if value != grown[i][key] {
					t.Errorf("%s: row %d: %s is %v by the young model, and %v", name, i, key, value, grown[i][key])
				}
				if value != nil {
					scored++
				}
			case strings.HasPrefix(key, "lca") && value != nil:
				t.Errorf("%s: row %d: %s is %v by a model that knows none", name, i, key, value)
			}
		}
		if len(grown[i]) != len(young[i]) {
			t.Errorf("%s: row %d: %v and %v", name, i, grown[i], young[i])
		}
	}
	return scored
}

// Rows of one message may have young models and grown ones: each row is as if its model were the only one.
func TestYoungModelsAmongOthers(t *testing.T) {
	all := modelsOf(t, 2)
	var value []byte
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 60 {
		value = fmt.Appendf(value, `,{"a":%v,"b":%v,"c":%v,"machine":%q}`, r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), []string{"x", "y", "none"}[i%3])
	}
	value[0] = '['
	in := fixtures.Decoded(fixtures.Events, 0, sink.Message{Topic: "events", Value: append(value, ']'), Headers: []source.Header{reject.Text("content-type", "application/json")}})
	var made [2][]map[string]any
	for n := range made {
		topic := newKeyedTopic(t, 2)
		topic.publish(snapshotOf(all[0], "x", 3))
		if other := all[1]; n == 1 {
			topic.publish(snapshotOf(fixtures.Young(other), "y", 4))
		} else {
			topic.publish(snapshotOf(other, "y", 4))
		}
		models := keyedModels(t, topic, modelkey.By{Place: modelkey.Column, Name: "machine"}, 1<<20)
		if err := models.CatchUp(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		c := keyedConfig(encode.OutputConfig{Column: "lca", Format: encode.FormatJSON, Passthrough: true, Score: true, P: true, Recent: true, Why: 1, Models: true}, reject.NullRow, PassThrough)
		work, err := keyedStage(models, c).Do(t.Context(), source.Batch{Messages: []source.Message{in}})
		if err != nil {
			t.Fatal(err)
		}
		made[n] = rowsIn(t, fixtures.Stored(work.Messages[0]))
	}
	for i, grown := range made[0] {
		young := made[1][i]
		ours := i%3 == 1
		for key, value := range young {
			same := fmt.Sprint(value) == fmt.Sprint(grown[key])
			switch {
			case !ours || !strings.HasPrefix(key, "lca") || strings.HasPrefix(key, "lca_recent") || key == "lca_model" || key == "lca_version":
				if !same {
					t.Errorf("row %d: %s is %v, want %v", i, key, value, grown[key])
				}
			case value != nil:
				t.Errorf("row %d: %s is %v by a young model", i, key, value)
			}
		}
		if ours && (young["lca_recent_score"] == nil || young["lca_version"] == nil) {
			t.Errorf("row %d is not scored: %v", i, young)
		}
	}
}

// Rows that are read from where they lie have the same scores, in small messages and in one of several slices.
func TestYoungModelFromWhereRowsLie(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var values [][]byte
	for i := range 40 {
		values = append(values, fixtures.ListValue(t, r, []int{1, 3, 40, 1500, 1, 700}[i%6], []float32{0, 0, 0, float32(math.NaN()), 0, 0, float32(math.Inf(-1))}[i%7]))
	}
	d := fixtures.NewDecoder(t, format.Config{})
	batchOf(t, d, values) // now it knows the layouts
	for i, policy := range []reject.OnInvalid{reject.NullRow, reject.ImputeRow, reject.RejectRow} {
		var all [2][]map[string]any
		for n := range all {
			one := listTransform(t, policy, fixtures.ListDim-i%2)
			one.Output.Recent, one.Output.Passthrough = true, false
			if n == 1 {
				s := *one.Follow.Current().Snapshot
				s.Model = fixtures.Young(s.Model)
				one.Follow.Adopt(&stats.PublishedModel{Snapshot: &s})
			}
			work, err := one.Do(t.Context(), batchOf(t, d, values))
			if err != nil {
				t.Fatal(err)
			}
			for _, out := range work.Messages {
				if out.Topic == "out" {
					all[n] = append(all[n], rowsIn(t, fixtures.Stored(out))...)
				}
			}
		}
		if scored := compareYoung(t, fmt.Sprint(policy), all[0], all[1]); scored == 0 {
			t.Error("no row is scored")
		}
	}
}
