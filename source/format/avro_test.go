package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro"
)

// written is a value that names schema id, as a serializer of a registry writes it.
func written(t testing.TB, id byte, schema string, v any) []byte {
	t.Helper()
	s, err := avro.Parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	body, err := s.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0, 0, 0, 0, id}, body...)
}

func avroOf(t testing.TB, c Config, texts ...string) *Decoder {
	t.Helper()
	r := schemasByID{}
	for i, text := range texts {
		r[7+i] = &Schema{ID: 7 + i, Type: SchemaAvro, Text: text}
	}
	c.Registry = r
	d, err := NewDecoder(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// record writes a schema of one record with the fields.
func record(fields ...string) string {
	return `{"type":"record","name":"Row","namespace":"test","fields":[` + strings.Join(fields, ",") + `]}`
}

func field(name, typ string) string { return `{"name":"` + name + `","type":` + typ + `}` }

// shown is a record as types and JSON.
func shown(t testing.TB, rec arrow.Record) (types, rows string) {
	t.Helper()
	text, err := rec.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range rec.Schema().Fields() {
		all = append(all, f.Name+": "+f.Type.String())
	}
	var plain []any
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	text, err = json.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, ", "), string(text)
}

func TestAvroTypes(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 30, 0, 123_000_000, time.UTC)
	for _, c := range []struct {
		name, field string
		value       any
		typ, want   string
	}{
		{"boolean", `"boolean"`, true, "bool", `true`},
		{"int", `"int"`, int32(-5), "int32", `-5`},
		{"long", `"long"`, int64(1) << 52, "int64", `4503599627370496`},
		{"float", `"float"`, float32(1.5), "float32", `1.5`},
		{"double", `"double"`, 2.25, "float64", `2.25`},
		{"string", `"string"`, "Grüße", "utf8", `"Grüße"`},
		{"bytes", `"bytes"`, []byte{1, 2}, "binary", `"AQI="`},
		{"fixed", `{"type":"fixed","name":"F","size":2}`, [2]byte{1, 2}, "fixed_size_binary[2]", `"AQI="`},
		{"enum", `{"type":"enum","name":"E","symbols":["ON","OFF"]}`, "OFF", "utf8", `"OFF"`},
		{"null", `"null"`, nil, "null", `null`},
		{"null or double", `["null","double"]`, 1.5, "float64", `1.5`},
		{"null or double, null", `["null","double"]`, nil, "float64", `null`},
		{"double or null, null", `["double","null"]`, nil, "float64", `null`},
		{"null or boolean, null", `["null","boolean"]`, nil, "bool", `null`},
		{"null or string, null", `["null","string"]`, nil, "utf8", `null`},
		{"a union of numbers, long", `["null","long","double"]`, int64(3), "float64", `3`},
		{"a union of numbers, double", `["null","long","double"]`, 3.5, "float64", `3.5`},
		{"a union of numbers, null", `["null","long","double"]`, nil, "float64", `null`},
		{"a union of others", `["null","long","string"]`, "x", "dense_union<null: type=null, nullable=0, long: type=int64, nullable=1, string: type=utf8, nullable=2>", `[2,"x"]`},
		{"numbers", `{"type":"array","items":"double"}`, []float64{1, 2.5}, "fixed_size_list<item: float64, nullable>[2]", `[1,2.5]`},
		{"floats", `{"type":"array","items":"float"}`, []float32{1, 2.5}, "fixed_size_list<item: float32, nullable>[2]", `[1,2.5]`},
		{"ints", `{"type":"array","items":"int"}`, []int32{-1, 300}, "fixed_size_list<item: int32, nullable>[2]", `[-1,300]`},
		{"numbers with null", `{"type":"array","items":["null","double"]}`, []any{1.0, nil}, "fixed_size_list<item: float64, nullable>[2]", `[1,null]`},
		{"no numbers", `{"type":"array","items":"double"}`, []float64{}, "list<item: float64, nullable>", `[]`},
		{"null or numbers", `["null",{"type":"array","items":"double"}]`, nil, "list<item: float64, nullable>", `null`},
		{"strings", `{"type":"array","items":"string"}`, []string{"a", "b"}, "list<item: utf8, nullable>", `["a","b"]`},
		{"map", `{"type":"map","values":"double"}`, map[string]any{"a": 1.5}, "map<utf8, float64, items_nullable>", `[{"key":"a","value":1.5}]`},
		{"record", record(field("x", `"double"`), field("y", `["null","int"]`)), map[string]any{"x": 1.5, "y": nil}, "struct<x: float64, y: int32>", `{"x":1.5,"y":null}`},
		{"null or record", `["null",` + record(field("x", `"double"`), field("l", `{"type":"array","items":"int"}`)) + `]`, nil, "struct<x: float64, l: list<item: int32, nullable>>", `null`},
		{"records", `{"type":"array","items":` + record(field("x", `"double"`)) + `}`, []any{map[string]any{"x": 1.0}, map[string]any{"x": 2.0}}, "list<item: struct<x: float64>, nullable>", `[{"x":1},{"x":2}]`},
		{"date", `{"type":"int","logicalType":"date"}`, at, "date32", `"2026-11-22"`},
		{"time in ms", `{"type":"int","logicalType":"time-millis"}`, time.Duration(1500) * time.Millisecond, "time32[ms]", `"00:00:01.5"`},
		{"time in µs", `{"type":"long","logicalType":"time-micros"}`, time.Duration(1500) * time.Microsecond, "time64[us]", `"00:00:00.0015"`},
		{"timestamp in ms", `{"type":"long","logicalType":"timestamp-millis"}`, at, "timestamp[ms, tz=UTC]", `"2026-11-22 12:30:00.123"`},
		{"timestamp in µs", `{"type":"long","logicalType":"timestamp-micros"}`, at, "timestamp[us, tz=UTC]", `"2026-11-22 12:30:00.123"`},
		{"local timestamp", `{"type":"long","logicalType":"local-timestamp-millis"}`, at, "timestamp[ms]", `"2026-11-22 12:30:00.123"`},
		{"decimal", `{"type":"bytes","logicalType":"decimal","precision":8,"scale":2}`, big.NewRat(-12345, 100), "decimal(8, 2)", `"-123.45"`},
		{"decimal in a fixed", `{"type":"fixed","name":"D","size":12,"logicalType":"decimal","precision":20,"scale":3}`, big.NewRat(12345, 1000), "decimal(20, 3)", `"12.345"`},
		{"large decimal", `{"type":"bytes","logicalType":"decimal","precision":60,"scale":1}`, big.NewRat(-5, 10), "decimal256(60, 1)", `"-0.5"`},
		{"uuid", `{"type":"string","logicalType":"uuid"}`, "0f9a3c5e-8b1d-4e0a-9a55-0123456789ab", "utf8", `"0f9a3c5e-8b1d-4e0a-9a55-0123456789ab"`},
		{"an unknown logical type", `{"type":"long","logicalType":"of-ours"}`, int64(3), "int64", `3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema := `{"type":"record","name":"Top","fields":[{"name":"before","type":"string"},{"name":"v","type":` + c.field + `},{"name":"after","type":"long"}]}`
			value := written(t, 7, schema, map[string]any{"before": "b", "v": c.value, "after": int64(9)})
			for _, only := range []bool{false, true} {
				rec, err := avroOf(t, Config{Columns: []string{"v"}, Only: only}, schema).Decode(t.Context(), value, "")
				if err != nil {
					t.Fatal(err)
				}
				types, rows := shown(t, rec)
				wantTypes, wantRows := "before: utf8, v: "+c.typ+", after: int64", `[{"after":9,"before":"b","v":`+c.want+`}]`
				if only {
					wantTypes, wantRows = "v: "+c.typ, `[{"v":`+c.want+`}]`
				}
				if types != wantTypes || rows != wantRows {
					t.Errorf("only %v:\n%s\n%s\nwant\n%s\n%s", only, types, rows, wantTypes, wantRows)
				}
				again := reread(t, rec)
				if againTypes, againRows := shown(t, again); againTypes != types || againRows != rows {
					t.Errorf("after IPC:\n%s\n%s\nwant\n%s\n%s", againTypes, againRows, types, rows)
				}
				rec.Release()
			}
		})
	}
}

// reread writes a record as our output does, and reads it as a stranger's message.
func reread(t *testing.T, rec arrow.Record) arrow.Record {
	t.Helper()
	again, err := newDecoder(t, Config{Format: Arrow}).Decode(t.Context(), encode(t, rec), "")
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// Debezium's envelope: a column is named by its path, and only it is read.
func TestAvroPaths(t *testing.T) {
	inner := record(field("temp", `["null","double"]`), field("tags", `{"type":"array","items":"string"}`), field("x", `{"type":"array","items":"float"}`))
	schema := `{"type":"record","name":"Envelope","fields":[{"name":"before","type":["null",` + inner + `]},{"name":"after","type":["null","test.Row"]},{"name":"op","type":"string"}]}`
	row := func(temp any) map[string]any {
		return map[string]any{"before": nil, "after": map[string]any{"temp": temp, "tags": []string{"a"}, "x": []float32{1, 2}}, "op": "u"}
	}
	for _, c := range []struct {
		name    string
		columns []string
		value   map[string]any
		types   string
		want    string
	}{
		{"a path", []string{"after.temp"}, row(1.5), "after.temp: float64", `[{"after.temp":1.5}]`},
		{"a null", []string{"after.temp"}, row(nil), "after.temp: float64", `[{"after.temp":null}]`},
		{"a null on the way", []string{"before.temp", "after.temp"}, row(2.5), "before.temp: float64, after.temp: float64", `[{"after.temp":2.5,"before.temp":null}]`},
		{"a list", []string{"after.x"}, row(2.5), "after.x: fixed_size_list<item: float32, nullable>[2]", `[{"after.x":[1,2]}]`},
		{"an array of texts", []string{"after.tags", "op"}, row(2.5), "after.tags: list<item: utf8, nullable>, op: utf8", `[{"after.tags":["a"],"op":"u"}]`},
		{"a record and what is within: all of it", []string{"op", "after", "after.temp"}, row(1.5), "before: struct<temp: float64, tags: list<item: utf8, nullable>, x: list<item: float32, nullable>>, after: struct<temp: float64, tags: list<item: utf8, nullable>, x: list<item: float32, nullable>>, op: utf8",
			`[{"after":{"tags":["a"],"temp":1.5,"x":[1,2]},"before":null,"op":"u"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, err := avroOf(t, Config{Columns: c.columns, Only: true}, schema).Decode(t.Context(), written(t, 7, schema, c.value), "")
			if err != nil {
				t.Fatal(err)
			}
			if types, rows := shown(t, rec); types != c.types || rows != c.want {
				t.Errorf("\n%s\n%s\nwant\n%s\n%s", types, rows, c.types, c.want)
			}
		})
	}
}

// Each value is read by the schema with which it was written, whichever came before.
func TestAvroEvolution(t *testing.T) {
	first := record(field("a", `"int"`), field("b", `"double"`))
	second := record(field("a", `"double"`), `{"name":"c","type":["null","string"],"default":null}`)
	d := avroOf(t, Config{}, first, second)
	for range 2 {
		for _, c := range []struct {
			value []byte
			want  string
		}{
			{written(t, 7, first, map[string]any{"a": int32(1), "b": 2.5}), `[{"a":1,"b":2.5}]`},
			{written(t, 8, second, map[string]any{"a": 1.5, "c": "x"}), `[{"a":1.5,"c":"x"}]`},
		} {
			rec, err := d.Decode(t.Context(), c.value, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, rows := shown(t, rec); rows != c.want {
				t.Errorf("%s, want %s", rows, c.want)
			}
		}
	}
}

func TestAvroReferences(t *testing.T) {
	s := &Schema{ID: 7, Type: SchemaAvro, Text: record(field("at", `"test.Place"`), field("was", `["null","test.Place"]`)), References: []SchemaReference{
		{Name: "test.Unit", Subject: "unit", Version: 1, Text: `{"type":"enum","name":"Unit","namespace":"test","symbols":["M","KM"]}`},
		{Name: "test.Place", Subject: "place", Version: 1, Text: `{"type":"record","name":"Place","namespace":"test","fields":[{"name":"x","type":"double"},{"name":"unit","type":"Unit"}]}`},
	}}
	parsed, err := parseAvro(s)
	if err != nil {
		t.Fatal(err)
	}
	body, err := parsed.Encode(map[string]any{"at": map[string]any{"x": 1.5, "unit": "KM"}, "was": nil})
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder(t, Config{Registry: schemasByID{7: s}})
	rec, err := d.Decode(t.Context(), append([]byte{0, 0, 0, 0, 7}, body...), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, rows := shown(t, rec); rows != `[{"at":{"unit":"KM","x":1.5},"was":null}]` {
		t.Error(rows)
	}
}

// A record within itself is left out; what is next to it is read.
func TestAvroRecursiveTypes(t *testing.T) {
	schema := record(field("x", `"double"`), field("next", `["null","test.Row"]`), field("all", `{"type":"array","items":"test.Row"}`), field("y", `"int"`))
	leaf := map[string]any{"x": 2.5, "next": nil, "all": []any{}, "y": int32(2)}
	rec, err := avroOf(t, Config{}, schema).Decode(t.Context(), written(t, 7, schema, map[string]any{"x": 1.5, "next": leaf, "all": []any{leaf, leaf}, "y": int32(1)}), "")
	if err != nil {
		t.Fatal(err)
	}
	if types, rows := shown(t, rec); types != "x: float64, y: int32" || rows != `[{"x":1.5,"y":1}]` {
		t.Errorf("%s\n%s", types, rows)
	}
}

// Values of several events may share a topic: their schema is a union of records.
func TestAvroUnionOfRecords(t *testing.T) {
	schema := `[{"type":"record","name":"A","fields":[{"name":"x","type":"double"}]},{"type":"record","name":"B","fields":[{"name":"y","type":"string"}]}]`
	d := avroOf(t, Config{}, schema)
	for body, want := range map[string]string{"\x00\x00\x00\x00\x00\x00\x00\xf8\x3f": `[{"x":1.5}]`, "\x02\x04hi": `[{"y":"hi"}]`} {
		rec, err := d.Decode(t.Context(), []byte("\x00\x00\x00\x00\x07"+body), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, rows := shown(t, rec); rows != want {
			t.Errorf("%s, want %s", rows, want)
		}
	}
}

func TestAvroWithoutARegistry(t *testing.T) {
	schema := record(field("x", `"double"`))
	body := written(t, 7, schema, map[string]any{"x": 1.5})[prefixBytes:]
	rec, err := newDecoder(t, Config{Format: Avro, AvroSchema: schema}).Decode(t.Context(), body, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, rows := shown(t, rec); rows != `[{"x":1.5}]` {
		t.Error(rows)
	}
	d := newDecoder(t, Config{Format: Avro, AvroSchema: record(field("x", `{"type":"fixed","name":"F","size":8}`))})
	for first := range 256 { // whatever it looks like
		for _, rest := range []string{"\"a\":12}", "1,2,3,]", "\xff\xff\xff\x10\x00\x00\x00", "RROW1\x00\x00", "\x00\x00\x00\x07\x00\x00\x00"} {
			if _, err := d.Decode(t.Context(), []byte(string([]byte{byte(first)})+rest), "application/json"); err != nil {
				t.Errorf("%x%x: %v", first, rest, err)
			}
		}
	}
	for _, c := range []Config{{AvroSchema: schema}, {Format: Avro, AvroSchema: `"long"`}, {Format: Avro, AvroSchema: `{`}} {
		if _, err := NewDecoder(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func TestAvroRefusals(t *testing.T) {
	schema := record(field("x", `"double"`), field("n", `"int"`), field("e", `{"type":"enum","name":"E","symbols":["A"]}`), field("s", `"string"`), field("b", `"boolean"`), field("u", `["null","long"]`), field("l", `{"type":"array","items":"long"}`))
	good := written(t, 7, schema, map[string]any{"x": 1.5, "n": int32(1), "e": "A", "s": "s", "b": true, "u": nil, "l": []int64{1}})
	with := func(at int, b ...byte) []byte {
		v := append([]byte(nil), good...)
		return append(append(v[:at:at], b...), v[at+1:]...)
	}
	const n = 13 // offset of the field n
	for _, c := range []struct {
		name   string
		config Config
		value  []byte
		code   string
		says   string
	}{
		{"cut off", Config{}, good[:9], CodeAvroInvalid, "bytes are announced"},
		{"nothing behind the prefix", Config{}, good[:5], CodeAvroInvalid, "are there"},
		{"more behind it", Config{}, append(append([]byte(nil), good...), 1, 2), CodeAvroInvalid, "2 bytes are left"},
		{"an int of 33 bits", Config{}, with(n, 0x80, 0x80, 0x80, 0x80, 0x20), CodeAvroInvalid, "does not fit"},
		{"an integer without an end", Config{}, with(n, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), CodeAvroInvalid, "64 bits"},
		{"a symbol that is not", Config{}, with(n+1, 2), CodeAvroInvalid, "choice 1 of 1"},
		{"a string that is not there", Config{}, with(n+2, 0xfe, 0xff, 0x03), CodeAvroInvalid, "are announced"},
		{"a negative length", Config{}, with(n+2, 1), CodeAvroInvalid, "-1 bytes"},
		{"not UTF-8", Config{}, with(n+3, 0xff), CodeAvroInvalid, "UTF-8"},
		{"a boolean of 2", Config{}, with(n+4, 2), CodeAvroInvalid, "boolean is 2"},
		{"a branch that is not", Config{}, with(n+5, 4), CodeAvroInvalid, "choice 2 of 2"},
		{"items that are not there", Config{}, with(n+6, 0xfe, 0xff, 0xff, 0x03), CodeAvroInvalid, "items are announced"},
		{"an id that is not", Config{}, []byte{0, 0, 0, 0, 99, 1}, CodeSchemaUnknown, "schema 99"},
		{"half an id", Config{}, []byte{0, 0, 0}, CodeFormatUnknown, "end before the id"},
		{"an id of 8 bytes", Config{}, []byte{0, 0, 0, 0, 0, 0, 0, 0, 7, 1}, CodeSchemaUnknown, "set their apicurio.registry.id-handler to one of 4 bytes"},
		{"a schema without text", Config{}, []byte{0, 0, 0, 0, 13, 1}, CodeSchemaInvalid, "the registry's schema 13 is empty"},
		{"a schema of another type", Config{}, []byte{0, 0, 0, 0, 8, 1}, CodeSchemaInvalid, "THRIFT"},
		{"a schema beyond bounds", Config{}, []byte{0, 0, 0, 0, 12, 1}, CodeSchemaInvalid, "schema 12: the schema cannot be used"},
		{"a schema that is none", Config{}, []byte{0, 0, 0, 0, 9, 1}, CodeSchemaInvalid, "schema 9"},
		{"a schema of no rows", Config{}, []byte{0, 0, 0, 0, 10, 1}, CodeSchemaInvalid, "a row is a record, and this is a long"},
		{"a union with others", Config{}, []byte{0, 0, 0, 0, 11, 1}, CodeSchemaInvalid, "a union with a long"},
		{"no prefix", Config{Format: Avro}, []byte("abc"), CodeAvroInvalid, "source.schema_file"},
		{"no registry", Config{Format: Avro, Registry: nil}, good, CodeAvroInvalid, "source.registry.url"},
		{"no registry, auto", Config{}, good, CodeFormatUnknown, "source.registry.url"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.HasPrefix(c.name, "no registry") {
				c.config.Registry = schemasByID{
					7: {ID: 7, Type: SchemaAvro, Text: schema}, 8: {ID: 8, Type: "THRIFT", Text: "struct"}, 9: {ID: 9, Type: SchemaAvro, Text: "{"},
					10: {ID: 10, Type: SchemaAvro, Text: `"long"`}, 11: {ID: 11, Type: SchemaAvro, Text: `["long","string"]`}, 12: nil, 13: {ID: 13, Type: SchemaAvro, Text: " "},
				}
			}
			rec, err := newDecoder(t, c.config).Decode(t.Context(), c.value, "")
			var e *Error
			if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v; want %s with %q", rec, err, c.code, c.says)
			}
		})
	}
}

// What a few bytes announce is refused before memory is taken for it.
func TestAvroBombs(t *testing.T) {
	for _, c := range []struct {
		name, typ string
		body      string
		code      string
	}{
		{"nulls", `{"type":"array","items":"null"}`, "\xfe\xff\xff\xff\x0f\x00", CodeAvroTooLarge},
		{"more nulls than any array holds", `{"type":"array","items":"null"}`, "\xfe\xff\xff\xff\xff\xff\xff\x0f\x00", CodeAvroTooLarge},
		{"empty records", `{"type":"array","items":{"type":"record","name":"N","fields":[]}}`, "\xfe\xff\xff\xff\x0f\x00", CodeAvroTooLarge},
		{"the least number", `{"type":"array","items":"null"}`, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00", CodeAvroInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema := record(field("v", c.typ))
			_, err := avroOf(t, Config{}, schema).Decode(t.Context(), []byte("\x00\x00\x00\x00\x07"+c.body), "")
			var e *Error
			if !errors.As(err, &e) || e.Code != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
		})
	}
	schema := record(field("v", `["null","test.Row"]`))
	deep := "\x00\x00\x00\x00\x07" + strings.Repeat("\x02", 1_000_000) + "\x00"
	if _, err := avroOf(t, Config{}, schema).Decode(t.Context(), []byte(deep), ""); err == nil || !strings.Contains(err.Error(), CodeAvroTooLarge) {
		t.Errorf("a million records within each other: %v", err)
	}
}

// A schema whose types double from one to the next does not double the work.
func TestAvroWideSchemas(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"type":"record","name":"R0","fields":[]}`)
	for i := range 40 {
		inner := b.String()
		b.Reset()
		fmt.Fprintf(&b, `{"type":"record","name":"R%d","fields":[{"name":"a","type":%s},{"name":"b","type":"R%d"}]}`, i+1, inner, i)
	}
	schema := b.String()
	if _, err := avroOf(t, Config{}, schema).Decode(t.Context(), []byte{0, 0, 0, 0, 7}, ""); err == nil || !strings.Contains(err.Error(), CodeSchemaInvalid) {
		t.Errorf("2^40 fields: %v", err)
	}
	top := record(field("x", `"int"`), field("wide", schema))
	rec, err := avroOf(t, Config{Only: true, Columns: []string{"x"}}, top).Decode(t.Context(), []byte{0, 0, 0, 0, 7, 2}, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(int64(1), rec.NumCols()); diff != "" {
		t.Error(diff)
	}
}
