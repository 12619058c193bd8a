package transform

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro"

	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// schemaStore is a registry in memory. What is registered has the ids from 100 on.
type schemaStore struct {
	schemas    map[int]*format.Schema
	registered []string
	refuses    error
}

func (s *schemaStore) Schema(_ context.Context, id int) (*format.Schema, error) {
	return s.schemas[id], nil
}

func (s *schemaStore) Register(ctx context.Context, subject string, schema *format.Schema) (int, error) {
	if s.refuses != nil || ctx.Err() != nil {
		return 0, errors.Join(s.refuses, ctx.Err())
	}
	id := 100 + len(s.registered)
	s.registered = append(s.registered, subject)
	s.schemas[id] = schema
	return id, nil
}

const (
	rowAvro = `{"type":"record","name":"Row","namespace":"of.ours","doc":"kept","fields":[{"name":"id","type":"string"},{"name":"x","type":{"type":"array","items":"double"}}%s]}`
	rowJSON = `{"title":"Row","type":"object","properties":{"x":{"type":"array"}},"required":["x"],"additionalProperties":false}`
)

// named is a message that names a schema.
func (s *schemaStore) named(t *testing.T, id int, body []byte) source.Message {
	t.Helper()
	value := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), body...)
	d := fixtures.NewDecoder(t, format.Config{Registry: s})
	rec, as, err := d.DecodeIn(t.Context(), nil, value, "")
	if err != nil {
		t.Fatal(err)
	}
	return source.Message{Partition: fixtures.Events, Value: value, Record: rec, Format: as, Headers: []source.Header{reject.Text(reject.ContentType, "application/x-avro")}}
}

func avroBody(t *testing.T, schema string, row map[string]any) []byte {
	t.Helper()
	body, err := avro.MustParse(schema).Encode(row)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// An Avro record comes out with its bytes as they were and the values of the columns of an Arrow output behind them, under
// a schema that is registered once for each schema of the input.
func TestAvroOutputIsTheInputWithTheColumns(t *testing.T) {
	first, later := fmt.Sprintf(rowAvro, ""), fmt.Sprintf(rowAvro, `,{"name":"n","type":"int"}`)
	for i := range 12 {
		s := &schemaStore{schemas: map[int]*format.Schema{7: {ID: 7, Type: format.SchemaAvro, Text: first}, 8: {ID: 8, Type: format.SchemaAvro, Text: later}}}
		good, holed := []float64{1, 2, 3, 4, 5, 6, 7, 8}, []float64{1, 2, 3, 4, 5, 6, 7, math.NaN()}
		inputs := []source.Message{
			s.named(t, 7, avroBody(t, first, map[string]any{"id": "a", "x": good})),
			s.named(t, 8, avroBody(t, later, map[string]any{"id": "b", "x": good, "n": 5})),
			s.named(t, 7, avroBody(t, first, map[string]any{"id": "c", "x": holed})),
		}
		whiten := func(f encode.Format) []sink.Message {
			tr := listTransform(t, reject.NullRow, fixtures.ListDim)
			tr.Registry, tr.Columns = s, []string{"x"}
			tr.Output = encode.OutputConfig{Format: f, Layout: encode.Layout(i % 2), Score: i%3 > 0, P: i%4 > 1, Why: i % 3, Imputed: i%5 == 1, Passthrough: true}
			if i == 11 {
				tr.Follow, tr.UntilModel = &models.Follow{ModelID: "m"}, PassThrough
			}
			work, err := tr.Do(t.Context(), source.Batch{Messages: inputs})
			if err != nil {
				t.Fatal(err)
			}
			out := make([]sink.Message, len(work.Messages))
			for k, m := range work.Messages {
				out[k] = fixtures.Stored(m)
			}
			return out
		}
		arrows, avros := whiten(encode.FormatArrow), whiten([]encode.Format{encode.FormatInput, encode.FormatAvro}[i%2])
		if diff := cmp.Diff([]string{"out-value", "out-value"}, s.registered); diff != "" {
			t.Fatalf("variant %d: registered under %v", i, s.registered)
		}
		for k, m := range avros {
			id, body, _ := format.SchemaID(m.Value)
			_, was, _ := format.SchemaID(inputs[k].Value)
			if !strings.HasPrefix(string(body), string(was)) || fixtures.Header(m, reject.ContentType) != "application/x-avro" {
				t.Errorf("variant %d: the input's bytes changed, or its type: %s", i, fixtures.Header(m, reject.ContentType))
			}
			var row map[string]any
			if rest, err := avro.MustParse(s.schemas[id].Text).Decode(body, &row); err != nil || len(rest) > 0 {
				t.Fatalf("variant %d: %v, %d bytes left", i, err, len(rest))
			}
			rec := fixtures.ReadStream(t, arrows[k].Value)
			if len(row) != int(rec.NumCols()) {
				t.Errorf("variant %d: %d fields of %d columns", i, len(row), rec.NumCols())
			}
			for j, f := range rec.Schema().Fields() {
				if !strings.HasPrefix(f.Name, "lca") {
					continue
				}
				var want any
				if err := json.Unmarshal([]byte(cell(rec.Column(j), 0)), &want); err != nil {
					t.Fatal(err)
				}
				if got, err := json.Marshal(row[f.Name]); err != nil || !sameJSON(got, want) {
					t.Errorf("variant %d: %s is %s, want %v", i, f.Name, got, want)
				}
			}
		}
	}
}

func sameJSON(text []byte, want any) bool {
	var got any
	return json.Unmarshal(text, &got) == nil && cmp.Equal(got, want)
}

// JSON with a schema keeps its text, behind the id of the schema with our properties; without the prefix it is JSON.
func TestJSONSchemaOutput(t *testing.T) {
	s := &schemaStore{schemas: map[int]*format.Schema{7: {ID: 7, Type: format.SchemaJSON, Text: rowJSON}}}
	body := `{"x": [1,2,3,4,5,6,7,8.0]}`
	for _, f := range []encode.Format{encode.FormatInput, encode.FormatJSON} {
		tr := listTransform(t, reject.NullRow, fixtures.ListDim)
		tr.Registry, tr.Output.Format = s, f
		work, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{s.named(t, 7, []byte(body))}})
		if err != nil {
			t.Fatal(err)
		}
		value := string(work.Messages[0].Value)
		if f == encode.FormatInput {
			if !strings.HasPrefix(value, "\x00\x00\x00\x00\x64") {
				t.Fatalf("%q names no schema", value)
			}
			value = value[5:]
		}
		if !strings.HasPrefix(value, body[:len(body)-1]+`,"lca":[`) || !json.Valid([]byte(value)) {
			t.Errorf("%v: %s", f, value)
		}
	}
	var schema struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	if err := json.Unmarshal([]byte(s.schemas[100].Text), &schema); err != nil || len(schema.Properties) != 4 || len(schema.Required) != 1 {
		t.Errorf("%v: %s", err, s.schemas[100].Text)
	}
}

// What cannot be written ends the process with the remedy, and nothing is set aside while a registry is away.
func TestWhatHasNoSchemaToBeWrittenWith(t *testing.T) {
	row := fmt.Sprintf(rowAvro, "")
	good := avroBody(t, row, map[string]any{"id": "a", "x": []float64{1, 2, 3, 4, 5, 6, 7, 8}})
	store := func() *schemaStore {
		return &schemaStore{schemas: map[int]*format.Schema{7: {ID: 7, Type: format.SchemaAvro, Text: row}, 9: {ID: 9, Type: format.SchemaAvro, Text: "[" + row + "]"},
			11: {ID: 11, Type: format.SchemaAvro, Text: strings.Replace(row, `"fields":[`, `"fields":[{"name":"before","type":["null","Row"]},`, 1)}}}
	}
	for _, c := range []struct {
		name   string
		format encode.Format
		id     int
		change func(s *schemaStore, tr *Transform, m *source.Message)
		says   string
	}{
		{"refused", encode.FormatInput, 7, func(s *schemaStore, _ *Transform, _ *source.Message) {
			s.refuses = errors.New("not compatible: says the registry")
		}, "not compatible: says the registry"},
		{"no registry", encode.FormatInput, 7, func(_ *schemaStore, tr *Transform, _ *source.Message) { tr.Registry = nil }, "source.registry.url"},
		{"Protobuf", encode.FormatInput, 7, func(_ *schemaStore, _ *Transform, m *source.Message) { m.Format = format.Protobuf }, "Protobuf, which is read and not written"},
		{"Arrow to Avro without a registry", encode.FormatAvro, 7, func(_ *schemaStore, tr *Transform, m *source.Message) { m.Format, tr.Registry = format.Arrow, nil }, "source.registry.url"},
		{"Arrow to Avro, refused", encode.FormatAvro, 7, func(s *schemaStore, _ *Transform, m *source.Message) {
			m.Format, s.refuses = format.Arrow, errors.New("not compatible: says the registry")
		}, "not compatible: says the registry"},
		{"a union", encode.FormatInput, 9, func(_ *schemaStore, _ *Transform, m *source.Message) {}, "no single record"},
		{"a record within itself", encode.FormatInput, 11, func(_ *schemaStore, _ *Transform, m *source.Message) {}, "contains itself"},
	} {
		s, tr := store(), listTransform(t, reject.NullRow, fixtures.ListDim)
		tr.Registry, tr.Output.Format = s, c.format
		body := good
		if c.id != 7 {
			body = append([]byte{0}, good...)
		}
		m := s.named(t, c.id, body)
		c.change(s, tr, &m)
		_, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{m}})
		var stop *reject.Stop
		if !errors.As(err, &stop) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "transform.format") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	s, tr := store(), listTransform(t, reject.NullRow, fixtures.ListDim)
	tr.Registry, tr.Output.Format = s, encode.FormatInput
	ctx, cancel := context.WithCancel(t.Context())
	m := s.named(t, 7, good)
	waits := waitingStore{s, cancel}
	tr.Registry = waits
	if _, err := tr.Do(ctx, source.Batch{Messages: []source.Message{m}}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped while the registry is away: %v", err)
	}
}

// waitingStore is stopped while it waits.
type waitingStore struct {
	*schemaStore
	stop func()
}

func (s waitingStore) Register(ctx context.Context, subject string, schema *format.Schema) (int, error) {
	s.stop()
	return s.schemaStore.Register(ctx, subject, schema)
}

// What one engine has registered the others know: rows go on while the registry is away.
func TestRegistrationsAreShared(t *testing.T) {
	row := fmt.Sprintf(rowAvro, "")
	s := &schemaStore{schemas: map[int]*format.Schema{7: {ID: 7, Type: format.SchemaAvro, Text: row}}}
	m := s.named(t, 7, avroBody(t, row, map[string]any{"id": "a", "x": []float64{1, 2, 3, 4, 5, 6, 7, 8}}))
	tr := listTransform(t, reject.NullRow, fixtures.ListDim)
	tr.Registry, tr.Engines, tr.Output.Format = s, NewEngines(3, 1<<20), encode.FormatInput
	for range 3 { // by an engine each
		if _, err := tr.Do(t.Context(), source.Batch{Messages: []source.Message{m}}); err != nil {
			t.Fatal(err)
		}
		tr.Kept()
		s.refuses = errors.New("asked again")
	}
}
