package minibatch

import (
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// column is one column of a test record, its values as JSON.
type column struct {
	name   string
	typ    arrow.DataType
	values string
}

func record(t testing.TB, columns ...column) arrow.Record {
	t.Helper()
	var fields []arrow.Field
	var arrays []arrow.Array
	rows := int64(0)
	for _, c := range columns {
		a, _, err := array.FromJSON(memory.DefaultAllocator, c.typ, strings.NewReader(c.values))
		if err != nil {
			t.Fatalf("column %s: %v", c.name, err)
		}
		fields = append(fields, arrow.Field{Name: c.name, Type: c.typ, Nullable: true})
		arrays = append(arrays, a)
		rows = int64(a.Len())
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), arrays, rows)
}

var (
	f16 = arrow.FixedWidthTypes.Float16
	f32 = arrow.PrimitiveTypes.Float32
	f64 = arrow.PrimitiveTypes.Float64
	i32 = arrow.PrimitiveTypes.Int32
	i64 = arrow.PrimitiveTypes.Int64
)

func fixed(n int32, t arrow.DataType) arrow.DataType { return arrow.FixedSizeListOf(n, t) }

// dictionary is a dictionary-encoded column of numbers; a negative index is a null.
func dictionary(t testing.TB, entries string, indices ...int8) arrow.Array {
	t.Helper()
	dict, _, err := array.FromJSON(memory.DefaultAllocator, f64, strings.NewReader(entries))
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewInt8Builder(memory.DefaultAllocator)
	for _, k := range indices {
		if k < 0 {
			b.AppendNull()
		} else {
			b.Append(k)
		}
	}
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: f64}
	return array.NewDictionaryArray(typ, b.NewArray(), dict)
}
