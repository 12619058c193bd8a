package format

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// protoRegistry has schemas by id.
type protoRegistry map[int]*Schema

func (p protoRegistry) Schema(_ context.Context, id int) (*Schema, error) {
	if s := p[id]; s != nil {
		return s, nil
	}
	return nil, ErrNoSchema
}

// protoValue is a value of schema 1: the prefix, the indexes, and a message in text form.
func protoValue(t testing.TB, s *Schema, indexes []int, text string) []byte {
	t.Helper()
	file, err := parseProtobuf(s)
	if err != nil {
		t.Fatal(err)
	}
	messages := file.Messages()
	var m protoreflect.MessageDescriptor
	value := []byte{0, 0, 0, 0, 1}
	if len(indexes) == 1 && indexes[0] == 0 {
		value = append(value, 0)
	} else {
		value = binary.AppendVarint(value, int64(len(indexes)))
	}
	for _, i := range indexes {
		if len(value) > 6 || i != 0 || len(indexes) > 1 {
			value = binary.AppendVarint(value, int64(i))
		}
		m = messages.Get(i)
		messages = m.Messages()
	}
	d := dynamicpb.NewMessage(m)
	if err := (prototext.UnmarshalOptions{AllowPartial: true}).Unmarshal([]byte(text), d); err != nil {
		t.Fatal(err)
	}
	body, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return append(value, body...)
}

const protoAll = `syntax = "proto3";
package plant;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/type/decimal.proto";
import "confluent/type/decimal.proto";
enum Unit { KELVIN = 0; BAR = 1; }
message Reading {
  message Inner { double temp = 1; optional double bar = 2; Unit unit = 3; }
  Inner after = 1;
  repeated double vec = 2;
  repeated Inner list = 3;
  map<string, double> tags = 4;
  oneof one { int32 whole = 5; string text = 6; Inner inner = 7; }
  google.protobuf.Timestamp at = 8;
  google.protobuf.Duration took = 9;
  google.protobuf.DoubleValue wrapped = 10;
  google.type.Decimal price = 11;
  confluent.type.Decimal cost = 12;
  bool ok = 13;
  sint64 signed = 14;
  fixed32 fixed = 1000;
  bytes raw = 16;
  repeated string names = 17;
  repeated sint32 unpacked = 18 [packed = false];
}
message Node { int32 id = 1; Node next = 2; repeated Node more = 3; }
`

const protoTwo = `syntax = "proto2";
message Old {
  required int32 id = 1;
  optional double temp = 2;
  optional double bar = 3 [default = 1.5];
  optional group G = 4 { optional int32 x = 5; }
  extensions 100 to 200;
}
`

func TestDecodeProtobuf(t *testing.T) {
	all, two := &Schema{ID: 1, Type: SchemaProtobuf, Text: protoAll}, &Schema{ID: 1, Type: SchemaProtobuf, Text: protoTwo}
	for _, c := range []struct {
		name    string
		schema  *Schema
		indexes []int
		text    string
		columns []string // read alone
		want    map[string]string
	}{
		{"numbers, optional, enum", all, []int{0, 0}, `temp: 1.5 unit: BAR`, nil, map[string]string{"temp": f(1.5), "bar": "null", "unit": x("BAR")}},
		{"defaults are values", all, []int{0, 0}, ``, nil, map[string]string{"temp": f(0), "bar": "null", "unit": x("KELVIN")}},
		{"an enum without a name", all, []int{0, 0}, `unit: 7`, nil, map[string]string{"unit": x("7")}},
		{"a struct", all, []int{0}, `after { temp: 2 bar: 3 }`, nil, map[string]string{"after": "{" + f(2) + "," + f(3) + "," + x("KELVIN") + "}", "inner": "null", "whole": "null"}},
		{"a path", all, []int{0}, `after { temp: 2 }`, []string{"after.temp", "signed"}, map[string]string{"after.temp": f(2), "signed": "0"}},
		{"a path that is null", all, []int{0}, `signed: -3`, []string{"after.temp", "signed"}, map[string]string{"after.temp": "null", "signed": "-3"}},
		{"lists", all, []int{0}, `vec: [1, 2] names: ["a", "b"] unpacked: [-1, 2] list { temp: 1 } list { bar: 4 }`, nil,
			map[string]string{"vec": "[" + f(1) + "," + f(2) + "]", "names": "[" + x("a") + "," + x("b") + "]", "unpacked": "[-1,2]",
				"list": "[{" + f(1) + ",null," + x("KELVIN") + "},{" + f(0) + "," + f(4) + "," + x("KELVIN") + "}]"}},
		{"a list alone", all, []int{0}, `vec: [1, 2]`, []string{"vec"}, map[string]string{"vec": "[" + f(1) + "," + f(2) + "]"}},
		{"a map", all, []int{0}, `tags { key: "a" value: 2 }`, nil, map[string]string{"tags": "[{" + x("a") + "," + f(2) + "}]"}},
		{"a oneof", all, []int{0}, `text: "x"`, nil, map[string]string{"whole": "null", "text": x("x"), "inner": "null"}},
		{"a oneof of which one is read", all, []int{0}, `text: "x"`, []string{"whole"}, map[string]string{"whole": "null"}},
		{"times", all, []int{0}, `at { seconds: 2 nanos: 1500 } took { seconds: -1 }`, nil, map[string]string{"at": "2000001", "took": "-1000000"}},
		{"wrappers and decimals", all, []int{0}, `wrapped { } price { value: "0.3" } cost { value: "\xff\x00" scale: 2 }`, nil, map[string]string{"wrapped": f(0), "price": f(0.3), "cost": f(-2.56)}},
		{"no wrapper, no decimal", all, []int{0}, ``, nil, map[string]string{"wrapped": "null", "price": "null"}},
		{"other kinds", all, []int{0}, `ok: true signed: -5 fixed: 4294967295 raw: "\x00"`, nil, map[string]string{"ok": "true", "signed": "-5", "fixed": "4294967295", "raw": x("\x00")}},
		{"a message within itself", all, []int{1}, `id: 4 next { id: 5 }`, nil, map[string]string{"id": "4"}},
		{"proto2", two, []int{0}, `id: 1 G { x: 3 }`, nil, map[string]string{"id": "1", "temp": "null", "bar": f(1.5), "g": "{3}"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder(t, Config{Registry: protoRegistry{1: c.schema}, Columns: c.columns, Only: c.columns != nil})
			value := protoValue(t, c.schema, c.indexes, c.text)
			for range 2 {
				rec, err := d.Decode(t.Context(), value, "")
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]string{}
				for i, v := range dumpRecord(rec) {
					if name := rec.ColumnName(i); c.want[name] != "" {
						got[name] = strings.Join(v, " ")
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// What comes again is as in the library: of a oneof nothing is left of what it had before another of its fields came, and of a map the last
// entry of a key counts.
func TestFieldsThatComeAgain(t *testing.T) {
	s := &Schema{ID: 1, Type: SchemaProtobuf, Text: `syntax = "proto3"; message Row {
		message Part { int32 n = 1; optional double x = 2; string text = 3; repeated int32 list = 4; map<string, int32> tags = 5; Part2 deep = 6; oneof inner { int32 a = 7; Part2 b = 8; } }
		message Part2 { repeated string names = 1; double y = 2; }
		oneof one { Part p = 1; Part q = 2; int32 z = 3; string t = 4; } repeated int32 own = 5; }`}
	texts := []string{
		`p { n: 1 x: 2 text: "a" list: [1, 2] tags { key: "k" value: 1 } deep { names: "m" y: 3 } a: 4 }`, `p { x: 5 list: 3 }`, `p { }`, `p { deep { y: 6 } b { names: "o" } }`, `p { b { y: 1 } }`,
		`q { n: 7 text: "b" }`, `q { list: 8 }`, `z: 9`, `t: "c"`, `own: 1`, `p { tags { key: "k" value: 2 } tags { key: "l" value: 3 } }`,
	}
	file, err := parseProtobuf(s)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, columns := range [][]string{nil, {"p.n", "p.list", "p.deep.y", "z"}, {"p.deep.names", "q.list", "own"}} {
		d := newDecoder(t, Config{Registry: protoRegistry{1: s}, Columns: columns, Only: columns != nil})
		dumped := func(body []byte) [][]string {
			rec, err := d.Decode(t.Context(), append([]byte{0, 0, 0, 0, 1, 0}, body...), "")
			if err != nil {
				t.Fatal(err)
			}
			defer rec.Release()
			return dumpRecord(rec)
		}
		for range 300 {
			var body []byte
			var said []string
			for range 1 + rng.IntN(5) {
				text := texts[rng.IntN(len(texts))]
				body, said = append(body, protoValue(t, s, []int{0}, text)[6:]...), append(said, text)
			}
			m := dynamicpb.NewMessage(file.Messages().Get(0))
			if err := proto.Unmarshal(body, m); err != nil {
				t.Fatal(err)
			}
			once, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(dumped(once), dumped(body)); diff != "" {
				t.Fatalf("%v, %s: %s", columns, strings.Join(said, " | "), diff)
			}
		}
	}
}

// Schemas come as text or as descriptors in base64, and so does what they import.
func TestProtobufSchemas(t *testing.T) {
	unit := `syntax = "proto3"; package u; message Unit { double temp = 1; double in_bar = 2; }`
	text := `syntax = "proto3"; import "dir/unit.proto"; message Row { u.Unit unit = 1; int64 n = 2; }`
	refs := []SchemaReference{{Name: "dir/unit.proto", Text: unit}}
	file, err := parseProtobuf(&Schema{Text: text, References: refs})
	if err != nil {
		t.Fatal(err)
	}
	encode := func(d protoreflect.FileDescriptor) string {
		described := protodesc.ToFileDescriptorProto(d)
		for _, m := range described.MessageType { // as in the code that protoc makes for Python
			for _, f := range m.Field {
				f.JsonName = nil
			}
		}
		raw, err := proto.Marshal(described)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	unit64 := []SchemaReference{{Name: "dir/unit.proto", Text: encode(file.Imports().Get(0).FileDescriptor)}}
	for name, s := range map[string]*Schema{"text": {Text: text, References: refs}, "base64": {Text: encode(file), References: unit64}, "text of base64": {Text: text, References: unit64}, "base64 of text": {Text: encode(file) + "\n", References: refs}} {
		s.ID, s.Type = 1, SchemaProtobuf
		rec, err := newDecoder(t, Config{Registry: protoRegistry{1: s}}).Decode(t.Context(), protoValue(t, s, []int{0}, `unit { temp: 2 } n: 7`), "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := fmt.Sprint(describe(rec)); got != "[unit struct<temp: float64, in_bar: float64> {"+f(2)+","+f(0)+"} n int64 7]" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for says, s := range map[string]string{"references": text, "syntax error": "message {", "no message": `syntax = "proto3"; enum E { A = 0; }`} {
		_, err := newDecoder(t, Config{Registry: protoRegistry{1: {ID: 1, Type: SchemaProtobuf, Text: s}}}).Decode(t.Context(), []byte{0, 0, 0, 0, 1, 0}, "")
		checkRefusal(t, err, CodeSchemaInvalid, says)
	}
}

func TestProtobufRefuses(t *testing.T) {
	s := &Schema{ID: 1, Type: SchemaProtobuf, Text: protoAll}
	old := &Schema{ID: 2, Type: SchemaProtobuf, Text: protoTwo}
	d := newDecoder(t, Config{Registry: protoRegistry{1: s, 2: old}})
	for name, c := range map[string]struct{ in, code, says string }{
		"no indexes":         {"\x00\x00\x00\x00\x01", CodeProtobufInvalid, "indexes"},
		"indexes cut off":    {"\x00\x00\x00\x00\x01\x04\x00", CodeProtobufInvalid, "indexes"},
		"too many indexes":   {"\x00\x00\x00\x00\x01\xfe\x01\x00", CodeProtobufInvalid, "indexes"},
		"no such message":    {"\x00\x00\x00\x00\x01\x02\x20", CodeProtobufInvalid, "message [16]"},
		"a negative index":   {"\x00\x00\x00\x00\x01\x02\x01", CodeProtobufInvalid, "indexes"},
		"a field cut off":    {"\x00\x00\x00\x00\x01\x00\x0a\x05", CodeProtobufInvalid, "field 1"},
		"field number 0":     {"\x00\x00\x00\x00\x01\x00\x00\x05", CodeProtobufInvalid, "number"},
		"text not UTF-8":     {"\x00\x00\x00\x00\x01\x00\x32\x01\xff", CodeProtobufInvalid, "UTF-8"},
		"a decimal of text":  {"\x00\x00\x00\x00\x01\x00\x5a\x03\x0a\x01x", CodeProtobufInvalid, "decimal"},
		"a time too far":     {"\x00\x00\x00\x00\x01\x00\x42\x0a\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40", CodeProtobufInvalid, `a time of field "at"`},
		"a time of 2 s more": {"\x00\x00\x00\x00\x01\x00\x42\x06\x10\x80\xa8\xd6\xb9\x07", CodeProtobufInvalid, `a time of field "at"`},
		"required":           {"\x00\x00\x00\x00\x02\x00", CodeProtobufInvalid, `the required field "id" is missing`},
		"many empty structs": {"\x00\x00\x00\x00\x01\x00" + strings.Repeat("\x1a\x00", 1<<20), CodeProtobufTooLarge, "decodes to more"},
		"unknown schema":     {"\x00\x00\x00\x00\x07\x00", CodeSchemaUnknown, "schema 7"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.Decode(t.Context(), []byte(c.in), "")
			checkRefusal(t, err, c.code, c.says)
		})
	}
}

// hostileProtobuf are values of protoAll to begin with.
func hostileProtobuf(t testing.TB, s *Schema) (values [][]byte) {
	t.Helper()
	for _, text := range []string{`after { temp: 1.5 bar: 2 unit: BAR }`, `vec: [1, 2] unpacked: [3] list { temp: 1 }`, `tags { key: "a" value: 1 } text: "x"`, `at { seconds: 1 } wrapped { value: 3 } price { value: "1.5" } cost { value: "\x01" scale: 3 }`, `inner { bar: 1 } fixed: 7`} {
		values = append(values, protoValue(t, s, []int{0}, text))
	}
	return values
}

// libraryTakes reads a body with the official library, which panics on some that are hostile, such as a map's entry with a
// key of another type.
func libraryTakes(body []byte, m proto.Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic: %v", p)
		}
	}()
	return proto.Unmarshal(body, m)
}

// What the library takes is taken, with the same numbers; and nothing makes a panic.
func FuzzDecodeProtobuf(f *testing.F) {
	s := &Schema{ID: 1, Type: SchemaProtobuf, Text: protoAll}
	file, err := parseProtobuf(s)
	if err != nil {
		f.Fatal(err)
	}
	for _, value := range hostileProtobuf(f, s) {
		f.Add(value[6:])
	}
	number := func(v float64) string { return fmt.Sprintf("f%016x", math.Float64bits(v)) }
	r := protoRegistry{1: s, 2: {ID: 2, Type: SchemaProtobuf, Text: protoTwo}}
	whole, only := newDecoder(f, Config{Registry: r}), newDecoder(f, Config{Registry: r, Columns: []string{"after.temp", "whole", "inner.bar", "signed"}, Only: true})
	f.Fuzz(func(t *testing.T, body []byte) {
		for id := range byte(2) { // with indexes of the fuzzer's own
			_ = decodeHostile(t, whole, append([]byte{0, 0, 0, 0, 1 + id}, body...))
		}
		value := append([]byte{0, 0, 0, 0, 1, 0}, body...)
		err := decodeHostile(t, whole, value)
		few, errFew := keepHostile(t, only, value)
		m := dynamicpb.NewMessage(file.Messages().Get(0))
		theirs := libraryTakes(body, m)
		for _, e := range []error{err, errFew} {
			if e != nil && theirs == nil && !strings.Contains(e.Error(), "decimal") && !strings.Contains(e.Error(), "a time of") && !strings.Contains(e.Error(), CodeProtobufTooLarge) {
				t.Fatalf("%v; the library: %v", e, theirs)
			}
		}
		if err != nil || errFew != nil || theirs != nil {
			return
		}
		for i, path := range [][]protoreflect.Name{{"after", "temp"}, {"whole"}, {"inner", "bar"}, {"signed"}} {
			want := "null"
			in := protoreflect.Message(m)
			for _, name := range path[:len(path)-1] {
				if d := in.Descriptor().Fields().ByName(name); in.Has(d) {
					in = in.Get(d).Message()
				} else {
					in = nil
					break
				}
			}
			if in != nil {
				d := in.Descriptor().Fields().ByName(path[len(path)-1])
				if !d.HasPresence() || in.Has(d) {
					want = fmt.Sprint(in.Get(d).Interface())
					if n, ok := in.Get(d).Interface().(float64); ok {
						want = number(n)
					}
				}
			}
			if got := dump(few.Column(i), 0); got != want {
				t.Errorf("%v: %s, want %s", path, got, want)
			}
		}
	})
}

func BenchmarkDecodeProtobuf(b *testing.B) {
	var schema, text, nestedSchema strings.Builder
	schema.WriteString("syntax = \"proto3\"; message Row {\n")
	var names, paths []string
	for k := range 64 {
		fmt.Fprintf(&schema, "double f%d = %d;\n", k, k+1)
		fmt.Fprintf(&text, "f%d: %v\n", k, float64(k)+0.37)
		names, paths = append(names, fmt.Sprint("f", k)), append(paths, fmt.Sprint("after.f", k))
	}
	schema.WriteString("}\n")
	nestedSchema.WriteString(schema.String() + "message Change { Row after = 1; string op = 2; }\n")
	flat, change := &Schema{ID: 1, Type: SchemaProtobuf, Text: schema.String()}, &Schema{ID: 1, Type: SchemaProtobuf, Text: nestedSchema.String()}
	for _, c := range []struct {
		name   string
		schema *Schema
		index  []int
		text   string
		config Config
	}{
		{"all", flat, []int{0}, text.String(), Config{}},
		{"only", flat, []int{0}, text.String(), Config{Columns: names, Only: true}},
		{"mixed", change, []int{1}, "op: \"u\" after {" + text.String() + "}", Config{}},
		{"paths", change, []int{1}, "op: \"u\" after {" + text.String() + "}", Config{Columns: paths, Only: true}},
	} {
		value := protoValue(b, c.schema, c.index, c.text)
		b.Run(c.name, func(b *testing.B) {
			c.config.Registry = protoRegistry{1: c.schema}
			d := newDecoder(b, c.config)
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			for b.Loop() {
				rec, err := d.Decode(b.Context(), value, "")
				if err != nil {
					b.Fatal(err)
				}
				rec.Release()
			}
		})
		if c.name != "all" {
			continue
		}
		b.Run("dynamicpb", func(b *testing.B) {
			file, err := parseProtobuf(c.schema)
			if err != nil {
				b.Fatal(err)
			}
			m := dynamicpb.NewMessage(file.Messages().Get(0))
			b.ReportAllocs()
			for b.Loop() {
				if err := proto.Unmarshal(value[6:], m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
