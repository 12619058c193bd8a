package arrowjson

import (
	"encoding/base64"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/internal/rowrecord"
)

// What values take at most, with the comma behind them. Times have more digits than numbers.
const (
	numberBytes  = 26
	momentBytes  = 72
	decimalBytes = 84
	boolBytes    = len("false,")
	nullBytes    = len(jsontext.Null + ",")
	marks        = len(`"":,`) // of a field, or around what is nested
)

// Size is at most how many bytes Append makes of all rows of a record: measured from what the record holds, without making it. It looks
// no further once it is beyond most.
func Size(rec arrow.Record, most int64) (size int64) {
	s, schema, rows := sizes{most}, rec.Schema(), int(rec.NumRows())
	single, _ := rec.(rowrecord.Record)
	for i := 0; i < schema.NumFields() && size <= most; i++ { // Fields would copy them
		f := schema.Field(i)
		size += s.name(f.Name, int64(rows))
		if single != nil && rowrecord.Shows(f.Type) {
			size += shown(f.Type, single.Value(i))
		} else {
			size += s.of(rec.Column(i), 0, rows)
		}
	}
	return size
}

// shown is the size of a value of a rowrecord.Record.
func shown(t arrow.DataType, v rowrecord.Value) int64 {
	switch t.ID() {
	case arrow.STRING:
		return int64(jsontext.StringSize(unsafe.String(unsafe.SliceData(v.Text), len(v.Text))))
	case arrow.BINARY:
		return int64(base64.StdEncoding.EncodedLen(len(v.Text)) + marks)
	}
	return momentBytes
}

// sizes measures columns. Once one of its sums is beyond most, it is the answer.
type sizes struct{ most int64 }

// name is the size of a key in that number of objects.
func (s *sizes) name(name string, rows int64) int64 {
	return rows * int64(jsontext.StringSize(name)+marks)
}

// of is the size of rows from … to−1 of a column.
func (s *sizes) of(column arrow.Array, from, to int) int64 {
	n := int64(to - from)
	switch a := column.(type) {
	case *array.Null:
		return n * int64(nullBytes)
	case *array.Boolean:
		return n * int64(boolBytes)
	case *array.Decimal128, *array.Decimal256:
		return n * decimalBytes
	case *array.String, *array.LargeString, *array.StringView:
		text := a.(interface{ Value(int) string })
		return s.each(from, to, func(i int) int64 { return int64(jsontext.StringSize(text.Value(i)) + nullBytes) })
	case *array.Binary, *array.LargeBinary, *array.BinaryView:
		bytes := a.(interface{ ValueLen(int) int })
		return s.each(from, to, func(i int) int64 { return int64(base64.StdEncoding.EncodedLen(bytes.ValueLen(i)) + marks + nullBytes) })
	case *array.FixedSizeBinary:
		return n * int64(base64.StdEncoding.EncodedLen(a.DataType().(*arrow.FixedSizeBinaryType).ByteWidth)+marks+nullBytes)
	}
	if size, ok := s.nested(column, from, to); ok {
		return size
	}
	if arrow.IsFloating(column.DataType().ID()) || arrow.IsInteger(column.DataType().ID()) {
		return n * numberBytes
	}
	return n * momentBytes
}

// each is a sum over rows.
func (s *sizes) each(from, to int, of func(i int) int64) (size int64) {
	for i := from; i < to && size <= s.most; i++ {
		size += of(i)
	}
	return size
}

// nested is of for columns that are made of others; ok: it is one.
func (s *sizes) nested(column arrow.Array, from, to int) (size int64, ok bool) {
	n := int64(to - from)
	switch a := column.(type) {
	case *array.Struct:
		size = n * int64(nullBytes+marks)
		for i, f := range a.DataType().(*arrow.StructType).Fields() {
			if size > s.most {
				break
			}
			size += s.name(f.Name, n) + s.of(a.Field(i), from, to)
		}
	case *array.Map:
		size = s.each(from, to, func(i int) int64 {
			first, last := a.ValueOffsets(i)
			return int64(nullBytes) + (last-first)*int64(marks) + s.of(a.Keys(), int(first), int(last)) + s.of(a.Items(), int(first), int(last))
		})
	case array.ListLike:
		size = s.each(from, to, func(i int) int64 {
			first, last := a.ValueOffsets(i)
			return int64(nullBytes) + s.of(a.ListValues(), int(first), int(last))
		})
	case *array.Dictionary:
		size = s.shared(a, a.Dictionary(), from, to, a.GetValueIndex)
	case *array.RunEndEncoded:
		size = s.shared(a, a.Values(), from, to, a.GetPhysicalIndex)
	case array.ExtensionArray:
		size = s.of(a.Storage(), from, to)
	case *array.SparseUnion:
		size = s.each(from, to, func(i int) int64 { return s.of(a.Field(a.ChildID(i)), i, i+1) })
	case *array.DenseUnion:
		size = s.each(from, to, func(i int) int64 { at := int(a.ValueOffset(i)); return s.of(a.Field(a.ChildID(i)), at, at+1) })
	default:
		return 0, false
	}
	return size, true
}

// shared is the size of values that several rows may have: each is measured once, or only those of few rows.
func (s *sizes) shared(column, values arrow.Array, from, to int, at func(int) int) int64 {
	one := func(i int) int64 { return s.of(values, i, i+1) + int64(nullBytes) }
	if to-from <= values.Len() {
		return s.each(from, to, func(i int) int64 {
			if column.IsNull(i) {
				return int64(nullBytes)
			}
			return one(at(i))
		})
	}
	var longest int64
	for i := range values.Len() {
		longest = max(longest, one(i))
	}
	return longest * int64(to-from)
}
