package arrowavro

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro"
)

// column is a column of one row from JSON, as Arrow reads it.
func column(t *testing.T, dt arrow.DataType, text string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader("["+text+"]"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// readBack is the row as a library reads it by its schema.
func readBack(t *testing.T, rec arrow.Record, taken ...string) (schema string, row map[string]any) {
	t.Helper()
	schema, err := Schema("a row", rec.Schema().Fields(), taken)
	if err != nil {
		t.Fatal(err)
	}
	body, _, err := Append([]byte("before"), rec, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := avro.Parse(schema)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	rest, err := reader.Decode(body[len("before"):], &row)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%s: %v, %d bytes left", schema, err, len(rest))
	}
	return schema, row
}

func record(fields []arrow.Field, columns ...arrow.Array) arrow.Record {
	return array.NewRecord(arrow.NewSchema(fields, nil), columns, 1)
}

// Each type is read back by a library of Avro as the value that it was, and so is a null of it.
func TestTypes(t *testing.T) {
	item := arrow.StructOf(arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int8}, arrow.Field{Name: "none", Type: arrow.Null})
	for _, c := range []struct {
		dt       arrow.DataType
		in, want string // want: of the row as JSON, "" for in
		typ      string
	}{
		{arrow.FixedWidthTypes.Boolean, "true", "", `"boolean"`},
		{arrow.PrimitiveTypes.Int8, "-128", "", `"int"`},
		{arrow.PrimitiveTypes.Int16, "-32768", "", `"int"`},
		{arrow.PrimitiveTypes.Int32, "-2147483648", "", `"int"`},
		{arrow.PrimitiveTypes.Int64, "-9223372036854775808", "", `"long"`},
		{arrow.PrimitiveTypes.Uint8, "255", "", `"int"`},
		{arrow.PrimitiveTypes.Uint16, "65535", "", `"int"`},
		{arrow.PrimitiveTypes.Uint32, "4294967295", "", `"long"`},
		{arrow.PrimitiveTypes.Uint64, "9007199254740991", "", `"long"`},
		{arrow.FixedWidthTypes.Float16, "1.5", "", `"float"`},
		{arrow.PrimitiveTypes.Float32, "1.25", "", `"float"`},
		{arrow.PrimitiveTypes.Float64, "0.1", "", `"double"`},
		{arrow.BinaryTypes.String, `"é"`, "", `"string"`},
		{arrow.BinaryTypes.LargeString, `"b"`, "", `"string"`},
		{arrow.BinaryTypes.Binary, `"AQI="`, "", `"bytes"`},
		{&arrow.FixedSizeBinaryType{ByteWidth: 2}, `"AQI="`, "", `"bytes"`},
		{&arrow.Decimal128Type{Precision: 9, Scale: 2}, `"-128.01"`, `"-12801/100"`, `"precision":9,"scale":2`},
		{&arrow.Decimal256Type{Precision: 60, Scale: 0}, `"128"`, "", `"precision":60`},
		{arrow.FixedWidthTypes.Date32, `"2026-11-22"`, `"2026-11-22T00:00:00Z"`, `"date"`},
		{arrow.FixedWidthTypes.Date64, `"1969-12-31"`, `"1969-12-31T00:00:00Z"`, `"date"`},
		{arrow.FixedWidthTypes.Time32s, `"00:00:02"`, "2000000000", `"time-millis"`},
		{arrow.FixedWidthTypes.Time32ms, `"00:00:02.5"`, "2500000000", `"time-millis"`},
		{arrow.FixedWidthTypes.Time64us, `"00:00:02.5"`, "2500000000", `"time-micros"`},
		{arrow.FixedWidthTypes.Timestamp_s, `"2026-11-22T01:02:03Z"`, "", `"timestamp-millis"`},
		{arrow.FixedWidthTypes.Timestamp_ms, `"2026-11-22T01:02:03.5Z"`, "", `"timestamp-millis"`},
		{arrow.FixedWidthTypes.Timestamp_us, `"2026-11-22T01:02:03.000005Z"`, "", `"timestamp-micros"`},
		{arrow.FixedWidthTypes.Timestamp_ns, `"2026-11-22T01:02:03.000000005Z"`, "", `"timestamp-nanos"`},
		{&arrow.TimestampType{Unit: arrow.Millisecond}, `"2026-11-22T01:02:03"`, `"2026-11-22T01:02:03Z"`, `"local-timestamp-millis"`},
		{arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float64), "[1,2.5]", "", `"items":"double"`},
		{arrow.ListOf(arrow.PrimitiveTypes.Float64), "[1,null,2.5]", "", `"items":["null","double"]`},
		{arrow.LargeListOf(arrow.PrimitiveTypes.Int64), "[]", "", `"items":["null","long"]`},
		{arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), "[1,2]", "", `"items":["null","float"]`},
		{arrow.ListOf(arrow.Null), "[null,null]", "", `"items":"null"`},
		{item, `{"n":5,"none":null}`, `{"n":5}`, `"name":"a_row_x_y"`},
		{arrow.ListOf(item), `[{"n":5,"none":null},null]`, `[{"n":5},null]`, `"array"`},
		{arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32), `[{"key":"k","value":7}]`, `{"k":7}`, `"map"`},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `"d"`, "", `["null","string"]`},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		for in, want := range map[string]string{c.in: want, "null": "null"} {
			rec := record([]arrow.Field{{Name: "x.y", Type: c.dt, Nullable: true}}, column(t, c.dt, in))
			schema, row := readBack(t, rec)
			got, err := json.Marshal(row["x_y"])
			if err != nil {
				t.Fatal(err)
			}
			var a, b any
			if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil || !cmp.Equal(a, b) {
				t.Errorf("%v: %s is %s, want %s", c.dt, in, got, want)
			}
			if !strings.Contains(schema, c.typ) || !strings.Contains(schema, `"doc":"x.y"`) || !strings.Contains(schema, `"default":null`) {
				t.Errorf("%v: %s", c.dt, schema)
			}
		}
	}
}

// Names that Avro does not have become names that it has; each field keeps one of its own, and none is one of those taken.
func TestNames(t *testing.T) {
	fields := []arrow.Field{{Name: "a.b"}, {Name: "a_b"}, {Name: "a b"}, {Name: "7é"}, {Name: ""}, {Name: "lca.0"}, {Name: "none", Type: arrow.Null}}
	columns := make([]arrow.Array, len(fields))
	for i := range fields {
		if fields[i].Type == nil {
			fields[i].Type = arrow.PrimitiveTypes.Int32
		}
		columns[i] = column(t, fields[i].Type, "null")
	}
	_, row := readBack(t, record(fields, columns...), "lca_0")
	want := map[string]any{"a_b": nil, "a_b_2": nil, "a_b_3": nil, "_7__": nil, "_": nil, "lca_0_2": nil}
	if diff := cmp.Diff(want, row); diff != "" {
		t.Error(diff)
	}
}

// What Avro has no type or no value for is an error that names the column.
func TestWhatAvroDoesNotHave(t *testing.T) {
	for _, dt := range []arrow.DataType{
		arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.MonthInterval, arrow.FixedWidthTypes.Time64ns, &arrow.Decimal128Type{Precision: 5, Scale: -2},
		arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int32), arrow.ListOf(arrow.FixedWidthTypes.Duration_ms),
		arrow.DenseUnionOf([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32}}, []arrow.UnionTypeCode{0}),
	} {
		_, err := Schema("row", []arrow.Field{{Name: "odd", Type: dt}}, nil)
		if err == nil || !strings.Contains(err.Error(), `column "odd"`) || !strings.Contains(err.Error(), "cannot be written as Avro") {
			t.Errorf("%v: %v", dt, err)
		}
	}
	never := arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int32)
	for _, c := range []struct {
		dt       arrow.DataType
		in, says string
	}{
		{arrow.PrimitiveTypes.Uint64, "9223372036854775808", "more than Avro's long"},
		{arrow.ListOfNonNullable(&arrow.TimestampType{Unit: arrow.Second}), "[9223372036854775807]", "out of the range"},
		{arrow.ListOfNonNullable(arrow.FixedWidthTypes.Time32s), "[2147484]", "out of the range"},
		{never, "[1,null]", "its type says that it is not"},
	} {
		_, _, err := Append(nil, record([]arrow.Field{{Name: "odd", Type: c.dt}}, column(t, c.dt, c.in)), 0, math.MaxInt32)
		if err == nil || !strings.Contains(err.Error(), `column "odd"`) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.dt, err)
		}
	}
}

// A time beyond Avro's range is null and counted, where its type lets it be.
func TestTimesThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		dt   arrow.DataType
		in   string
		want string
		lost int
	}{
		{&arrow.TimestampType{Unit: arrow.Second}, "9223372036854775807", "\x00", 1},
		{arrow.FixedWidthTypes.Time32s, "2147484", "\x00", 1},
		{arrow.FixedWidthTypes.Time32s, "1", "\x02\xd0\x0f", 0},
		{arrow.FixedWidthTypes.Date64, "9223372036854775807", "\x00", 1},
		{arrow.ListOf(arrow.FixedWidthTypes.Time32s), "[2147484, 1, null, 2147484]", "\x02\x08\x00\x02\xd0\x0f\x00\x00\x00", 2},
	} {
		body, lost, err := Append(nil, record([]arrow.Field{{Name: "at", Type: c.dt}}, column(t, c.dt, c.in)), 0, math.MaxInt32)
		if err != nil || string(body) != c.want || lost != c.lost {
			t.Errorf("%v %s: %q, %d lost, want %q, %d: %v", c.dt, c.in, body, lost, c.want, c.lost, err)
		}
	}
}

// A few bytes of a dictionary can stand for many: they are not written beyond the bound.
func TestBound(t *testing.T) {
	dt := arrow.ListOf(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
	text := `"` + strings.Repeat("x", 1000) + `"`
	rec := record([]arrow.Field{{Name: "x", Type: dt}}, column(t, dt, "["+text+strings.Repeat(","+text, 999)+"]"))
	out, _, err := Append(nil, rec, 0, 10_000)
	if !errors.Is(err, ErrTooLarge) || len(out) > 0 {
		t.Errorf("%v, %d bytes", err, len(out))
	}
}
