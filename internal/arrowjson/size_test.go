package arrowjson_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/arrowjson"
)

// of is a record of one column, from JSON.
func of(t *testing.T, dt arrow.DataType, values string) arrow.Record {
	t.Helper()
	column, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader(values))
	if err != nil {
		t.Fatal(dt, err)
	}
	return array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "a", Type: dt, Nullable: true}}, nil), []arrow.Array{column}, int64(column.Len()))
}

// small are values that are short for their type and values that are long, of each kind.
func small(t *testing.T) map[string]arrow.Record {
	t.Helper()
	p := &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Asia/Kathmandu"}
	texts := `["", null, "\u0000\u001f\n\"\\", "é日本"]`
	return map[string]arrow.Record{
		"null":       of(t, arrow.Null, `[null, null]`),
		"boolean":    of(t, arrow.FixedWidthTypes.Boolean, `[true, null, false]`),
		"int8":       of(t, arrow.PrimitiveTypes.Int8, `[-128, null]`),
		"int64":      of(t, arrow.PrimitiveTypes.Int64, `[-9223372036854775808, null]`),
		"uint64":     of(t, arrow.PrimitiveTypes.Uint64, `[18446744073709551615]`),
		"float32":    of(t, arrow.PrimitiveTypes.Float32, `[-1.17549435e-38, 123456.7, null]`),
		"float64":    of(t, arrow.PrimitiveTypes.Float64, `[-2.2250738585072014e-308, 1234567890.1234567]`),
		"decimal":    of(t, &arrow.Decimal256Type{Precision: 76, Scale: 76}, `["-0.`+strings.Repeat("9", 76)+`", null]`),
		"utf8":       of(t, arrow.BinaryTypes.String, texts),
		"large utf8": of(t, arrow.BinaryTypes.LargeString, texts),
		"binary":     of(t, arrow.BinaryTypes.Binary, `["AA==", null, ""]`),
		"fixed":      of(t, &arrow.FixedSizeBinaryType{ByteWidth: 4}, `["AAAAAA==", null]`),
		"date":       of(t, arrow.FixedWidthTypes.Date32, `["2026-11-22", null]`),
		"timestamp":  of(t, p, `["2026-11-22 13:45:00.123456789", null]`),
		"interval":   of(t, arrow.FixedWidthTypes.MonthDayNanoInterval, `[{"months": -2147483648, "days": -2147483648, "nanoseconds": -9223372036854775807}]`),
		"duration":   of(t, arrow.FixedWidthTypes.Duration_ns, `[-9223372036854775807]`),
		"struct":     of(t, arrow.StructOf(arrow.Field{Name: "b\n", Type: arrow.Null, Nullable: true}, arrow.Field{Name: "c", Type: arrow.BinaryTypes.String, Nullable: true}), `[{"c": "\u0001"}, null]`),
		"list":       of(t, arrow.ListOf(arrow.PrimitiveTypes.Int8), `[[], null, [1, null, -128]]`),
		"fixed list": of(t, arrow.FixedSizeListOf(2, arrow.BinaryTypes.String), `[["\u0000", null], null]`),
		"map":        of(t, arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String), `[[{"key": -9223372036854775808, "value": "\u0000"}], null, []]`),
		"dictionary": of(t, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `["\u0000\u0000", null, "\u0000\u0000", "\u0000\u0000", "x"]`),
		"run ends":   of(t, arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String), `["\u0000", "\u0000", "\u0000", null, null]`),
	}
}

// What is measured is never less than what is made, and for short rows not many times as much.
func TestSizeIsWhatRowsTake(t *testing.T) {
	for name, rec := range small(t) {
		var rows arrowjson.Rows
		if err := rows.Reset(rec); err != nil {
			t.Fatal(name, err)
		}
		var text []byte
		for i := range int(rec.NumRows()) {
			text = append(rows.Append(text, i), ',')
		}
		size := arrowjson.Size(rec, 1<<40)
		if n := int64(len(text)); size < n || size > 6*n+100 {
			t.Errorf("%s: measured %d bytes, made %d: %s", name, size, n, text)
		}
	}
}

// A text ends soon after it has become too long, whatever makes it long, and is measured without being made.
func TestTextsEnd(t *testing.T) {
	const most, n = 100 << 10, 1 << 20
	zeros := strings.Repeat("\x00", n)
	text := array.NewStringBuilder(memory.DefaultAllocator)
	text.Append(zeros)
	bytes := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	bytes.Append([]byte(zeros))
	nulls, keys := array.NewListBuilder(memory.DefaultAllocator, arrow.Null), array.NewMapBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int8, false)
	nulls.Append(true)
	keys.Append(true)
	for range n {
		nulls.ValueBuilder().AppendNull()
		keys.KeyBuilder().(*array.Int8Builder).Append(1)
		keys.ItemBuilder().(*array.Int8Builder).Append(1)
	}
	words := array.NewListBuilder(memory.DefaultAllocator, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
	words.Append(true)
	for range 10_000 {
		if err := words.ValueBuilder().(*array.BinaryDictionaryBuilder).AppendString(zeros[:1000]); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string]array.Builder{"text": text, "bytes": bytes, "list of nulls": nulls, "map": keys, "list of words": words} {
		column := b.NewArray()
		rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "a", Type: column.DataType()}}, nil), []arrow.Array{column}, 1)
		var rows arrowjson.Rows
		if err := rows.Reset(rec); err != nil {
			t.Fatal(name, err)
		}
		rows.Until(most)
		if made := len(rows.Append(nil, 0)); made <= most || made > most+6*(4<<10) {
			t.Errorf("%s: %d bytes of at most %d", name, made, most)
		}
		if size := arrowjson.Size(rec, most); size <= most {
			t.Errorf("%s: measured %d bytes, which is not more than %d", name, size, most)
		}
		rows.Until(0)
		if made := int64(len(rows.Append(nil, 0))); made <= most || made > arrowjson.Size(rec, 1<<40) {
			t.Errorf("%s: %d bytes without an end, measured %d", name, made, arrowjson.Size(rec, 1<<40))
		}
	}
}
