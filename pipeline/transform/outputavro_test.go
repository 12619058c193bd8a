package transform

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro"

	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// jsonMessage is a message of JSON with a content type of its own.
func jsonMessage(t *testing.T, value string) source.Message {
	t.Helper()
	rec, as, err := fixtures.NewDecoder(t, format.Config{}).DecodeIn(t.Context(), nil, []byte(value), "")
	if err != nil {
		t.Fatal(err)
	}
	return source.Message{Partition: fixtures.Events, Value: []byte(value), Record: rec, Format: as, Headers: []source.Header{reject.Text(reject.ContentType, "application/json"), reject.Text("trace", "7")}}
}

// avroTransform writes Avro to a registry in memory.
func avroTransform(t *testing.T, s *schemaStore) *Transform {
	t.Helper()
	tr := listTransform(t, reject.NullRow, fixtures.ListDim)
	tr.Registry, tr.Columns = s, []string{"x"}
	tr.Output = encode.OutputConfig{Format: encode.FormatAvro, Score: true, P: true, Why: 2, Passthrough: true}
	return tr
}

// row is an output as a library reads it by the schema that it names.
func (s *schemaStore) row(t *testing.T, m sink.Message) (row map[string]any) {
	t.Helper()
	id, body, ok := format.SchemaID(m.Value)
	if !ok || s.schemas[id] == nil {
		t.Fatalf("%q names no schema", m.Value)
	}
	rest, err := avro.MustParse(s.schemas[id].Text).Decode(body, &row)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%v, %d bytes left", err, len(rest))
	}
	return row
}

// A row of JSON or Arrow comes out as Avro by a schema of its columns, with the values of ours that Arrow has. What has the
// same columns has the same schema, and each schema reads what was written by the others. Columns of earlier JSON are null.
func TestAvroOutputOfOtherFormats(t *testing.T) {
	s := &schemaStore{schemas: map[int]*format.Schema{}}
	const list = `[1,2,3,4,5,6,7,8]`
	inputs := []source.Message{
		jsonMessage(t, `{"id":"a","x":`+list+`,"n":null,"at.ms":5,"tags":[],"in":{"deep":[1]}}`),
		jsonMessage(t, `[{"id":"b","x":`+list+`,"n":2.5}]`),
		jsonMessage(t, `{"id":"c","x":`+list+`,"n":7,"tags":["t"]}`),
		jsonMessage(t, `{"id":"d","x":[1,2,3,null,5,6,7,8],"n":null,"at.ms":6,"tags":[null],"in":{}}`),
	}
	fields := []arrow.Field{{Name: "x", Type: arrow.FixedSizeListOf(fixtures.ListDim, arrow.PrimitiveTypes.Float64)}, {Name: "at", Type: arrow.FixedWidthTypes.Timestamp_ms}}
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(`[{"x":`+list+`,"at":"2026-11-22T00:00:00Z"}]`))
	if err != nil {
		t.Fatal(err)
	}
	inputs = append(inputs, source.Message{Partition: fixtures.Events, Value: []byte{1}, Record: rec, Format: format.Arrow})

	tr := avroTransform(t, s)
	work, err := tr.Do(t.Context(), source.Batch{Messages: inputs})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.registered) != 4 || s.registered[0] != "out-value" {
		t.Errorf("registered under %v", s.registered)
	}
	want := []map[string]any{
		{"id": "a", "at_ms": 5., "in": `{"deep":[1]}`}, {"id": "b", "n": 2.5, "at_ms": nil, "in": nil},
		{"id": "c", "n": 7., "tags": `["t"]`, "at_ms": nil, "in": nil}, {"id": "d", "at_ms": 6., "in": `{}`, "n": nil, "tags": nil}, {"at": "2026-11-22T00:00:00Z"},
	}
	var first []byte
	for i, m := range work.Messages {
		m := fixtures.Stored(m)
		row := s.row(t, m)
		if fixtures.Header(m, reject.ContentType) != "application/avro" || i < 4 && fixtures.Header(m, "trace") != "7" {
			t.Errorf("message %d: headers %v", i, m.Headers)
		}
		ours := map[string]any{}
		for _, name := range []string{"lca", "lca_score", "lca_p", "lca_why"} {
			ours[name] = row[name]
			delete(row, name)
		}
		if x, ok := row["x"].([]any); !ok || len(x) != fixtures.ListDim || x[7] != 8. || (x[3] == nil) != (i == 3) {
			t.Errorf("message %d: x is %v", i, row["x"])
		}
		delete(row, "x")
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		if wanted, err := json.Marshal(want[i]); err != nil || string(text) != string(wanted) {
			t.Errorf("message %d: %s, want %s", i, text, wanted)
		}
		numbers, err := json.Marshal(ours)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case i == 3:
			if diff := cmp.Diff(map[string]any{"lca": nil, "lca_score": nil, "lca_p": nil, "lca_why": nil}, ours); diff != "" {
				t.Error(diff)
			}
		case i == 0:
			first = numbers
			if y, _ := ours["lca"].([]any); len(y) == 0 || ours["lca_score"] == nil {
				t.Errorf("%s", numbers)
			}
		case string(numbers) != string(first): // they have the same features
			t.Errorf("message %d: %s, want %s", i, numbers, first)
		}
	}
	for id, reader := range s.schemas {
		for other, writer := range s.schemas {
			if _, err := avro.Resolve(avro.MustParse(writer.Text), avro.MustParse(reader.Text)); err != nil {
				t.Errorf("%d does not read %d: %v", id, other, err)
			}
		}
	}
}

// A message that is no single row, or has what Avro does not have, is set aside with words; a name of ours too.
func TestWhatAvroHasNoPlaceFor(t *testing.T) {
	const row = `{"x":[1,2,3,4,5,6,7,8]}`
	span := jsonMessage(t, row)
	columns := append(span.Record.Columns(), array.MakeArrayOfNull(memory.DefaultAllocator, arrow.FixedWidthTypes.Duration_s, 1))
	span.Record = array.NewRecord(arrow.NewSchema([]arrow.Field{span.Record.Schema().Field(0), {Name: "span", Type: arrow.FixedWidthTypes.Duration_s}}, nil), columns, 1)
	span.Format = format.Arrow
	for _, c := range []struct {
		m          source.Message
		code, says string
	}{
		{jsonMessage(t, "["+row+","+row+"]"), reject.CodeNotAvro, "it has 2 rows"},
		{span, reject.CodeNotAvro, `column "span": type duration[s] cannot be written as Avro`},
		{jsonMessage(t, row[:len(row)-1]+`,"lca":null}`), reject.CodeOutputColumnExists, "lca"},
	} {
		tr := avroTransform(t, &schemaStore{schemas: map[int]*format.Schema{}})
		work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{c.m}})
		if err != nil {
			t.Fatal(err)
		}
		m := fixtures.Stored(work.Messages[0])
		if m.Topic != "dead" || fixtures.Header(m, "lca-error-code") != c.code || !strings.Contains(fixtures.Header(m, "lca-error"), c.says) {
			t.Errorf("%s: %s %v", c.says, m.Topic, m.Headers)
		}
	}
}
