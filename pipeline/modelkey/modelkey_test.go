package modelkey

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

func TestParseIsTheInverseOfString(t *testing.T) {
	for _, text := range []string{"none", "key", "header:machine", "header:header:x", "column:payload.id", "column:key"} {
		if b, err := Parse(text); err != nil || b.String() != text {
			t.Errorf("%s is read as %v, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "keys", "header:", "column:", "Key", "column"} {
		if b, err := Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, b)
		}
	}
}

func TestIDs(t *testing.T) {
	for _, c := range []struct {
		base  string
		part  int32
		value string
		want  string
	}{
		{"default", 0, "pump-7_A", "default/0/pump-7_A"},
		{"a/b", 12, "a/b", "a/b/12/a%2Fb"},
		{"m", 3, "", "m/3/"},
		{"m", 3, "1.5 %", "m/3/1%2E5%20%25"},
		{"m", 3, "\xff\x00é", "m/3/%FF%00%C3%A9"},
	} {
		if got := ID(c.base, c.part, []byte(c.value)); got != c.want {
			t.Errorf("%q has the id %s, want %s", c.value, got, c.want)
		}
		base, part, value, ok := Split(c.want)
		if !ok || base != c.base || part != c.part || string(value) != c.value {
			t.Errorf("%s is split into %q, %d, %q, %v", c.want, base, part, value, ok)
		}
	}
	for _, id := range []string{"default", "default/x/y", "default/0", "m/-1/x", "m/01/x", "m/1/%2e", "m/1/%2", "m/1/a.b", "m/1/%41", "m/99999999999/x"} {
		if base, part, value, ok := Split(id); ok {
			t.Errorf("%s is split into %q, %d, %q", id, base, part, value)
		}
	}
}

// Every value has an id of its own, whatever its bytes, also where a base looks like the end of an id.
func FuzzID(f *testing.F) {
	f.Add("default", int32(1), []byte("a/b%"))
	f.Fuzz(func(t *testing.T, base string, part int32, value []byte) {
		part &= math.MaxInt32
		b, p, v, ok := Split(ID(base, part, value))
		if !ok || b != base || p != part || !bytes.Equal(v, value) {
			t.Fatalf("%q, %d, %q came back as %q, %d, %q, %v", base, part, value, b, p, v, ok)
		}
	})
}

func TestOfMessage(t *testing.T) {
	long := []byte(strings.Repeat("x", MostBytes+1))
	m := func(key []byte, headers ...source.Header) *source.Message {
		return &source.Message{Key: key, Headers: headers}
	}
	h := func(value []byte) source.Header { return source.Header{Key: "machine", Value: value} }
	other := source.Header{Key: "Machine", Value: []byte("no")}
	for name, c := range map[string]struct {
		by   By
		m    *source.Message
		want []byte // nil: none
	}{
		"key":                  {By{Place: Key}, m([]byte("a")), []byte("a")},
		"empty key":            {By{Place: Key}, m([]byte{}), []byte{}},
		"null key":             {By{Place: Key}, m(nil), nil},
		"longest key":          {By{Place: Key}, m(long[1:]), long[1:]},
		"longer key":           {By{Place: Key}, m(long), nil},
		"header":               {By{Header, "machine"}, m(nil, h([]byte("a")), other), []byte("a")},
		"last header counts":   {By{Header, "machine"}, m(nil, h([]byte("a")), h([]byte("b"))), []byte("b")},
		"last header is null":  {By{Header, "machine"}, m(nil, h([]byte("a")), h(nil)), nil},
		"no header":            {By{Header, "machine"}, m([]byte("key"), other), nil},
		"header that is empty": {By{Header, "machine"}, m(nil, h([]byte{})), []byte{}},
	} {
		value, ok := c.by.OfMessage(c.m)
		if ok != (c.want != nil) || ok && !bytes.Equal(value, c.want) {
			t.Errorf("%s: %q, %v", name, value, ok)
		}
	}
}

func TestColumn(t *testing.T) {
	type build struct {
		typ  arrow.DataType
		json string
		want []string // "-" is none
	}
	for name, c := range map[string]build{
		"text":        {arrow.BinaryTypes.String, `["a", null, "", "b"]`, []string{"a", "-", "", "b"}},
		"large text":  {arrow.BinaryTypes.LargeString, `["a", null]`, []string{"a", "-"}},
		"text views":  {arrow.BinaryTypes.StringView, `["a", null, "more than twelve bytes", ""]`, []string{"a", "-", "more than twelve bytes", ""}}, // polars writes text so
		"integers":    {arrow.PrimitiveTypes.Int16, `[-5, null, 7]`, []string{"-5", "-", "7"}},
		"uint64":      {arrow.PrimitiveTypes.Uint64, `["18446744073709551615"]`, []string{"18446744073709551615"}},
		"booleans":    {arrow.FixedWidthTypes.Boolean, `[true, false, null]`, []string{"true", "false", "-"}},
		"dictionary":  {&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `["a", "b", null, "a"]`, []string{"a", "b", "-", "a"}},
		"longer text": {arrow.BinaryTypes.String, `["` + strings.Repeat("x", MostBytes+1) + `"]`, []string{"-"}},
		"json":        {arrow.PrimitiveTypes.Float64, `[-5, null, 7.5, 1e300, 9007199254740992, 9007199254740991]`, []string{"-5", "-", "-", "-", "-", "9007199254740991"}},
		"nulls":       {arrow.Null, `[null, null]`, []string{"-", "-"}},
	} {
		t.Run(name, func(t *testing.T) {
			rec := record(t, c.typ, c.json)
			defer rec.Release()
			v, err := By{Column, "machine"}.Column(rec)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Release()
			if v.Len() != len(c.want) {
				t.Fatalf("%d rows, want %d", v.Len(), len(c.want))
			}
			for i, want := range c.want {
				got, ok := v.At(i)
				if ok != (want != "-") || ok && got != want {
					t.Errorf("row %d: %q, %v, want %q", i, got, ok, want)
				}
			}
		})
	}
}

func TestColumnsThatGiveNoValues(t *testing.T) {
	rec := record(t, arrow.PrimitiveTypes.Float32, `[1, 2]`)
	defer rec.Release()
	var bad *ColumnError
	if _, err := (By{Column, "machine"}).Column(rec); !errors.As(err, &bad) || bad.Code != CodeType {
		t.Errorf("floats: %v", err)
	}
	v, err := By{Column, "other"}.Column(rec)
	if err != nil {
		t.Fatal(err)
	}
	if value, ok := v.At(1); ok {
		t.Errorf("a record without the column gives %q", value)
	}
	v.Release()
}

func TestDottedColumn(t *testing.T) {
	typ := arrow.StructOf(arrow.Field{Name: "id", Type: arrow.BinaryTypes.String, Nullable: true})
	rec := record(t, typ, `[{"id": "a"}, null, {"id": null}]`)
	defer rec.Release()
	v, err := By{Column, "machine.id"}.Column(rec)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	if value, ok := v.At(0); !ok || value != "a" {
		t.Errorf("%q, %v", value, ok)
	}
	for _, row := range []int{1, 2} {
		if value, ok := v.At(row); ok {
			t.Errorf("row %d: %q", row, value)
		}
	}
}

// record is a record with the one column machine.
func record(t *testing.T, typ arrow.DataType, json string) arrow.Record {
	t.Helper()
	col, _, err := array.FromJSON(memory.DefaultAllocator, typ, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "machine", Type: typ, Nullable: true}}, nil)
	rec := array.NewRecord(schema, []arrow.Array{col}, int64(col.Len()))
	col.Release()
	return rec
}

// One JSON object can be written in many ways, and what is of several types is kept as it was written: neither is a value, whatever
// the messages before and after it hold. A text that looks like an object is one.
func TestJSONTextIsNoValue(t *testing.T) {
	d, err := format.NewDecoder(format.Config{Columns: []string{"m", "in.m"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, message string
		want          string // "": the column is refused
	}{
		{"m", `{"m": "{\"x\": 1}", "in": {"m": {}}}`, `{"x": 1}`},
		{"m", `{"m": {"x": 1}, "in": {"m": "a"}}`, ""},
		{"m", `{"m": "a", "in": {"m": "a"}}`, "a"},
		{"m", `{"m": { "x":1 }, "in": {"m": "a"}}`, ""},
		{"m", `{"m": ["a"], "in": {"m": "a"}}`, ""},
		{"in.m", `{"m": "a", "in": {"m": "b"}}`, "b"},
		{"in.m", `{"m": "a", "in": {"m": {"x": 1}}}`, ""},
		{"in.m", `[{"m": "a", "in": {"m": "b"}}, {"m": "a", "in": {"m": 7}}]`, "b"},
		{"m", `[{"m": "a\u00e9"}, {"m": {"x": 1}}]`, "aé"},
		{"m", `[{"m": 9007199254740993}, {"m": "x"}]`, "9007199254740993"},
		{"m", `[{"m": 1.20e1}, {"m": "x"}]`, "12"},
		{"m", `[{"m": -7}, {"m": false}]`, "-7"},
		{"m", `[{"m": true}, {"m": 1}]`, "true"},
		{"m", `[{"m": {}}, {"m": [1, 2]}]`, ""},
		{"in.m", `{"m": {}, "in": {"m": "b"}}`, "b"},
	} {
		rec, _, err := d.DecodeIn(t.Context(), nil, []byte(c.message), "")
		if err != nil {
			t.Fatalf("%s: %v", c.message, err)
		}
		values, err := (By{Column, c.name}).Column(rec)
		if c.want == "" {
			var bad *ColumnError
			if !errors.As(err, &bad) || bad.Code != CodeType {
				t.Errorf("%s of %s: %v, want %s", c.name, c.message, err, CodeType)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s of %s: %v", c.name, c.message, err)
		}
		if got, ok := values.At(0); got != c.want || !ok {
			t.Errorf("%s of %s: %q, %v, want %q", c.name, c.message, got, ok, c.want)
		}
		values.Release()
	}
}
