package transform

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lca-stream/lca-stream/source/format"
)

// The schemas of the messages that the table is made with: all name the features a to h. A later one has a text more, and
// whole numbers for the first feature; a lesser one lacks the last feature.
const (
	firstSchema = 1 + iota
	laterSchema
	lesserSchema
)

// sample is what a message has.
type sample struct {
	schema int  // what it is written with
	null   bool // the last feature is null
}

// sampled is a format with its messages.
type sampled struct {
	name   format.Format
	kind   sr.SchemaType
	schema func(schema int) string // nil: it has none
	body   func(t *testing.T, s sample) []byte
}

// names are the features that messages of a schema have.
func (s sample) names() []string {
	all := strings.Split("abcdefgh", "")
	if s.schema == lesserSchema {
		return all[:7]
	}
	return all
}

var samples = []sampled{
	{name: format.Arrow, body: sampleArrow},
	{name: format.JSON, body: sampleJSON},
	{format.Avro, sr.TypeAvro, sampleAvroSchema, func(t *testing.T, s sample) []byte {
		row := map[string]any{"note": "later"}
		for i, name := range s.names() {
			row[name] = float64(i + 1)
		}
		if s.schema == laterSchema {
			row["a"] = int64(1)
		}
		if s.null {
			row["h"] = nil
		}
		return avroBody(t, sampleAvroSchema(s.schema), row)
	}},
	{format.Protobuf, sr.TypeProtobuf, sampleProtoSchema, sampleProtobuf},
	{format.JSONSchema, sr.TypeJSON, func(schema int) string {
		properties := map[string]any{}
		for _, name := range (sample{schema: schema}).names() {
			properties[name] = map[string]any{"type": []string{"number", "null"}}
		}
		if schema == laterSchema {
			properties["note"] = map[string]any{"type": "string"}
		}
		text, _ := json.Marshal(map[string]any{"type": "object", "properties": properties})
		return string(text)
	}, sampleJSON},
}

func sampleJSON(t *testing.T, s sample) []byte {
	row := map[string]any{}
	for i, name := range s.names() {
		row[name] = i + 1
	}
	if s.schema == laterSchema {
		row["note"] = "later"
	}
	if s.null {
		row["h"] = nil
	}
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func sampleArrow(t *testing.T, s sample) []byte {
	var fields []arrow.Field
	for _, name := range s.names() {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64, Nullable: true})
	}
	if s.schema == laterSchema {
		fields[0].Type = arrow.PrimitiveTypes.Int32
		fields = append([]arrow.Field{{Name: "note", Type: arrow.BinaryTypes.String}}, fields...)
	}
	schema := arrow.NewSchema(fields, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+string(sampleJSON(t, s))+"]"))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	var value bytes.Buffer
	w := ipc.NewWriter(&value, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		t.Fatal(err)
	}
	return value.Bytes()
}

func sampleAvroSchema(schema int) string {
	var fields []string
	for _, name := range (sample{schema: schema}).names() {
		kind := `["null","double"]`
		if name == "a" && schema == laterSchema {
			kind = `"long"`
		}
		fields = append(fields, `{"name":"`+name+`","type":`+kind+`}`)
	}
	if schema == laterSchema {
		fields = append([]string{`{"name":"note","type":"string"}`}, fields...)
	}
	return `{"type":"record","name":"Row","fields":[` + strings.Join(fields, ",") + `]}`
}

func sampleProtoSchema(schema int) string {
	text := "syntax = \"proto3\";\nmessage Row {\n"
	for i, name := range (sample{schema: schema}).names() {
		kind := "double"
		if name == "a" && schema == laterSchema {
			kind = "sint64"
		}
		text += fmt.Sprintf("  optional %s %s = %d;\n", kind, name, i+1)
	}
	if schema == laterSchema {
		text += "  string note = 9;\n"
	}
	return text + "}\n"
}

func sampleProtobuf(_ *testing.T, s sample) []byte {
	body := []byte{0} // the first message of the schema
	for i, name := range s.names() {
		number := protowire.Number(i + 1)
		switch {
		case name == "h" && s.null:
		case name == "a" && s.schema == laterSchema:
			body = protowire.AppendVarint(protowire.AppendTag(body, number, protowire.VarintType), protowire.EncodeZigZag(1))
		default:
			body = protowire.AppendFixed64(protowire.AppendTag(body, number, protowire.Fixed64Type), math.Float64bits(float64(i+1)))
		}
	}
	if s.schema == laterSchema {
		body = protowire.AppendString(protowire.AppendTag(body, 9, protowire.BytesType), "later")
	}
	return body
}

// value is a message as its producer writes it.
func (f *sampled) value(t *testing.T, s sample) []byte {
	t.Helper()
	body := f.body(t, s)
	if f.schema == nil {
		return body
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(s.schema)), body...)
}
