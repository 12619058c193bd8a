package arrowjson_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lca-stream/lca-stream/internal/arrowjson"
	"github.com/lca-stream/lca-stream/internal/rowrecord"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source/format"
)

// kinds has a field of each kind that a rowrecord.Record shows, and of some that it does not.
const kinds = `syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/type/decimal.proto";
enum Unit { KELVIN = 0; BAR = 1; }
message Row {
  double d = 1; float f = 2; int32 i32 = 3; int64 i64 = 4; uint32 u32 = 5; uint64 u64 = 6; sint32 s32 = 7; bool b = 8;
  string s = 9; bytes raw = 10; Unit unit = 11; optional double od = 12; optional string os = 13; optional bool ob = 14;
  google.protobuf.Timestamp at = 15; google.protobuf.Duration took = 16; google.protobuf.DoubleValue wd = 17;
  google.protobuf.StringValue ws = 18; google.protobuf.UInt32Value wu = 19; google.type.Decimal price = 20;
  repeated double list = 21; Inner inner = 22; map<string, int32> tags = 23;
}
message Inner { double x = 1; optional bool y = 2; }
`

type oneSchema format.Schema

func (s *oneSchema) Schema(context.Context, int) (*format.Schema, error) {
	return (*format.Schema)(s), nil
}

// protobufOf returns what decodes the bodies of the first message of a schema.
func protobufOf(tb testing.TB, text string) func(body []byte) (arrow.Record, error) {
	tb.Helper()
	d, err := format.NewDecoder(format.Config{Registry: &oneSchema{ID: 1, Type: format.SchemaProtobuf, Text: text}})
	if err != nil {
		tb.Fatal(err)
	}
	return func(body []byte) (arrow.Record, error) {
		return d.Decode(context.Background(), append([]byte{0, 0, 0, 0, 1, 0}, body...), "")
	}
}

// A row that shows its values comes to the same text and the same numbers as one that has arrays.
func FuzzRows(f *testing.F) {
	decode := protobufOf(f, kinds)
	text := func(number protowire.Number, v string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), v)
	}
	varint := func(number protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
	}
	double := func(number protowire.Number, v float64) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), math.Float64bits(v))
	}
	f.Add([]byte{})
	for _, v := range []uint64{0, 1, 7, math.MaxInt32, math.MaxUint32, math.MaxInt64, math.MaxUint64} {
		var body []byte
		for _, number := range []protowire.Number{3, 4, 5, 6, 7, 8, 11, 14} {
			body = append(body, varint(number, v)...)
		}
		body = append(body, text(15, string(varint(1, v))+string(varint(2, v)))...)
		body = append(body, text(16, string(varint(1, v)))...)
		f.Add(append(body, text(19, string(varint(1, v)))...))
	}
	for _, v := range []float64{0, 1.5, -1e-9, 1e300, math.Inf(1), math.NaN()} {
		body := append(double(1, v), protowire.AppendFixed32(protowire.AppendTag(nil, 2, protowire.Fixed32Type), math.Float32bits(float32(v)))...)
		body = append(append(body, double(12, v)...), text(17, string(double(1, v)))...)
		f.Add(append(append(body, text(21, string(double(1, v)[1:]))...), text(22, string(double(1, v)))...))
	}
	for _, v := range []string{"", "x", "\"\\\n\x00é", strings.Repeat("long ", 50)} {
		body := append(append(text(9, v), text(10, v)...), text(13, v)...)
		f.Add(append(append(body, text(18, string(text(1, v)))...), text(23, string(text(1, v)))...))
	}
	f.Add(text(20, string(text(1, "0.25"))))
	names := []string{"d", "f", "i32", "i64", "u32", "u64", "s32", "b", "od", "ob", "at", "took", "wd", "wu", "price"}
	var shown, arrays arrowjson.Rows
	f.Fuzz(func(t *testing.T, body []byte) {
		rec, err := decode(body)
		if err != nil {
			return
		}
		if _, ok := rec.(rowrecord.Record); !ok {
			t.Fatalf("a %T", rec)
		}
		made := array.NewRecord(rec.Schema(), rec.Columns(), 1)
		if got, want := jsonOf(t, &shown, rec), jsonOf(t, &arrays, made); got != want {
			t.Errorf("%s\nof arrays: %s", got, want)
		}
		for _, keep := range []bool{false, true} {
			if got, want := gathered(t, rec, names, keep), gathered(t, made, names, keep); got != want {
				t.Errorf("%s\nof arrays: %s", got, want)
			}
		}
	})
}

func jsonOf(t *testing.T, rows *arrowjson.Rows, rec arrow.Record) string {
	t.Helper()
	if err := rows.Reset(rec); err != nil {
		t.Fatal(err)
	}
	made := rows.Append(nil, 0)
	if size := arrowjson.Size(rec, 1<<40); size < int64(len(made)) {
		t.Errorf("measured %d bytes, made %d: %s", size, len(made), made)
	}
	return string(made)
}

func gathered(t *testing.T, rec arrow.Record, names []string, keep bool) string {
	t.Helper()
	features, rows := minibatch.Features{Names: names}, minibatch.Rows{KeepMissing: keep}
	if err := features.Gather(&rows, rec); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(rows.X, rows.Invalid, rows.Bad)
}

// From the bytes of Protobuf to features and JSON: 64 numbers and a text.
func BenchmarkRows(b *testing.B) {
	const d = 64
	var schema strings.Builder
	var body []byte
	var names []string
	schema.WriteString("syntax = \"proto3\"; message Row { string note = 100;\n")
	for k := range d {
		fmt.Fprintf(&schema, "double f%d = %d;\n", k, k+1)
		names = append(names, fmt.Sprint("f", k))
		v := math.Sin(float64(k + 1))
		body = protowire.AppendFixed64(protowire.AppendTag(body, protowire.Number(k+1), protowire.Fixed64Type), math.Float64bits(v))
	}
	schema.WriteString("}\n")
	body = protowire.AppendString(protowire.AppendTag(body, 100, protowire.BytesType), "row 17")
	decode, features := protobufOf(b, schema.String()), minibatch.Features{Names: names}
	var rows minibatch.Rows
	var texts arrowjson.Rows
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		rec, err := decode(body)
		if err != nil {
			b.Fatal(err)
		}
		if err := features.Gather(&rows, rec); err != nil {
			b.Fatal(err)
		}
		if err := texts.Reset(rec); err != nil {
			b.Fatal(err)
		}
		dst = texts.Append(dst[:0], 0)
	}
}
