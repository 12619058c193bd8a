//go:build unix

package transform

import (
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// everyAvro has a field of each type that a column may have; Unit is defined elsewhere.
const everyAvro = `{"type":"record","name":"Row","namespace":"of.ours","fields":[
	{"name":"x","type":{"type":"array","items":"double"}},
	{"name":"boolean","type":"boolean"}, {"name":"int","type":"int"}, {"name":"long","type":"long"}, {"name":"float","type":"float"}, {"name":"double","type":["double","null"]},
	{"name":"string","type":"string"}, {"name":"bytes","type":"bytes"}, {"name":"fixed","type":{"type":"fixed","name":"F","size":2}}, {"name":"unit","type":"Unit"},
	{"name":"nothing","type":"null"}, {"name":"numbers","type":["null","long","double"]}, {"name":"other","type":["null","long","string","Unit",{"type":"map","values":"int"}]},
	{"name":"ints","type":{"type":"array","items":["null","int"]}}, {"name":"texts","type":["null",{"type":"array","items":"string"}]},
	{"name":"map","type":{"type":"map","values":["null","double"]}},
	{"name":"inner","type":["null",{"type":"record","name":"Inner","fields":[{"name":"t","type":"double"},{"name":"f","type":"F"},{"name":"again","type":["null","Inner"]},{"name":"u","type":["int","string"]}]}]},
	{"name":"inners","type":{"type":"array","items":"Inner"}},
	{"name":"date","type":{"type":"int","logicalType":"date"}}, {"name":"ms","type":{"type":"int","logicalType":"time-millis"}}, {"name":"us","type":{"type":"long","logicalType":"time-micros"}},
	{"name":"at_ms","type":["null",{"type":"long","logicalType":"timestamp-millis"}]}, {"name":"at_us","type":{"type":"long","logicalType":"timestamp-micros"}},
	{"name":"local","type":{"type":"long","logicalType":"local-timestamp-millis"}},
	{"name":"decimal","type":{"type":"bytes","logicalType":"decimal","precision":8,"scale":2}}, {"name":"wide","type":["null",{"type":"fixed","name":"D","size":26,"logicalType":"decimal","precision":60,"scale":1}]}
]}`

const unitAvro = `{"type":"enum","name":"Unit","namespace":"of.ours","symbols":["ON","OFF"]}`

// everyRow is a row of everyAvro; without numbers, some of it is null or empty, and so is what is ours.
func everyRow(numbers bool) map[string]any {
	at := time.Date(1926, 11, 22, 12, 30, 0, 123_000_000, time.UTC)
	inner := map[string]any{"t": 2.5, "f": [2]byte{3, 4}, "again": nil, "u": "text"}
	row := map[string]any{"x": []float64{1, 2, 3, 4, 5, 6, 7, 8}, "boolean": true, "int": int32(-5), "long": int64(1) << 60, "float": float32(0.1), "double": 0.1,
		"string": "Grüße", "bytes": []byte{0, 255}, "fixed": [2]byte{1, 2}, "unit": "OFF", "nothing": nil, "numbers": int64(3), "other": "x", "ints": []any{int32(1), nil}, "texts": []string{"a", "b"},
		"map": map[string]any{"a": 1.5}, "inner": inner, "inners": []any{inner, map[string]any{"t": 3.5, "f": [2]byte{5, 6}, "again": inner, "u": int32(7)}},
		"date": at, "ms": 1500 * time.Millisecond, "us": 1500 * time.Microsecond, "at_ms": at, "at_us": at, "local": at, "decimal": big.NewRat(-12345, 100), "wide": big.NewRat(-5, 10)}
	if !numbers {
		row["x"] = []float64{}
		for _, name := range []string{"double", "numbers", "other", "texts", "inner", "at_ms", "wide"} {
			row[name] = nil
		}
		row["ints"], row["inners"], row["map"] = []any{}, []any{}, map[string]any{"a": nil}
	}
	return row
}

// TestPythonPackageReadsRegisteredOutput: rows of Avro are in Python what they are in Arrow, to their types; those of JSON with
// a schema have the same values.
func TestPythonPackageReadsRegisteredOutput(t *testing.T) {
	t.Setenv("PYTHONPATH", "../../python/src")
	unit := format.SchemaReference{Name: "of.ours.Unit", Subject: "unit", Version: 1, Text: unitAvro, Direct: true}
	s := &schemaStore{schemas: map[int]*format.Schema{
		7: {ID: 7, Type: format.SchemaAvro, Text: everyAvro, References: []format.SchemaReference{unit}},
		8: {ID: 8, Type: format.SchemaJSON, Text: rowJSON},
	}}
	parsable := strings.Replace(everyAvro, `"name":"unit","type":"Unit"`, `"name":"unit","type":`+unitAvro, 1)
	inputs := []source.Message{
		s.named(t, 7, avroBody(t, parsable, everyRow(true))),
		s.named(t, 7, avroBody(t, parsable, everyRow(false))),
		s.named(t, 8, []byte(`[{"x": [1,2,3,4,5,6,7,8.5], "n": "a"}, {"x": null, "n": "b"}]`)),
	}
	type message struct {
		Value   []byte          `json:"value"`
		Headers []source.Header `json:"headers"`
		Text    bool            `json:"text"`
	}
	var job struct {
		Schemas  map[int][]string `json:"schemas"`
		Messages [3][]message     `json:"messages"`
	}
	for _, f := range []encode.Format{encode.FormatInput, encode.FormatArrow} {
		tr := listTransform(t, reject.NullRow, fixtures.ListDim)
		tr.Registry, tr.Columns = s, []string{"x"}
		tr.Output = encode.OutputConfig{Format: f, Score: true, P: true, Why: 2, Imputed: true, Passthrough: true}
		work, err := tr.Do(t.Context(), source.Batch{Messages: inputs})
		if err != nil || len(work.Messages) != len(inputs) {
			t.Fatalf("%d messages, %v", len(work.Messages), err)
		}
		for i, m := range work.Messages {
			m = fixtures.Stored(m)
			job.Messages[i] = append(job.Messages[i], message{m.Value, m.Headers, i == 2})
		}
	}
	job.Schemas = map[int][]string{}
	for id, schema := range s.schemas {
		for _, r := range schema.References {
			job.Schemas[id] = append(job.Schemas[id], r.Text)
		}
		job.Schemas[id] = append(job.Schemas[id], schema.Text)
	}
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "job.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := testtools.RunPython(t, "testdata/read_registered.py", path); got != "3\n" {
		t.Errorf("messages: %s", got)
	}
}
