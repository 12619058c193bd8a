package format

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetColumn is how a column of a file becomes an Arrow column.
type parquetColumn struct {
	leaf  int            // number of the leaf that holds its values
	dt    arrow.DataType // of the column
	elem  arrow.DataType // of its values: dt, or the items of the list
	width int            // bytes of a value; 0 for text and bytes
	list  bool
	item  int // least definition level at which a list has an item
}

// float16Leaves are the leaves of half-precision numbers, which parquet-go gives as bytes.
func float16Leaves(m *format.FileMetaData) map[int]bool {
	leaves, n := map[int]bool{}, 0
	for _, e := range m.Schema {
		if e.NumChildren.Valid && e.NumChildren.V > 0 {
			continue
		}
		if _, ok := e.LogicalType.Value.(*format.Float16Type); ok {
			leaves[n] = true
		}
		n++
	}
	return leaves
}

// parquetColumnOf maps a column; false for one that is left out.
func parquetColumnOf(c *parquet.Column, halves map[int]bool) (parquetColumn, bool) {
	if c.Leaf() && !c.Repeated() {
		dt, width := leafType(c.Type())
		if halves[c.Index()] {
			dt, width = arrow.FixedWidthTypes.Float16, 2
		}
		return parquetColumn{leaf: c.Index(), dt: dt, elem: dt, width: width}, dt != nil
	}
	if c.Leaf() { // repeated without a group: a list of the old form
		dt, width := leafType(c.Type())
		return listColumn(c, dt, width)
	}
	// group LIST { repeated group { leaf } }, or { repeated leaf }
	if len(c.Columns()) != 1 || !isListGroup(c) {
		return parquetColumn{}, false
	}
	inner := c.Columns()[0]
	if !inner.Leaf() && inner.Repeated() && len(inner.Columns()) == 1 {
		inner = inner.Columns()[0]
	}
	if !inner.Leaf() || inner.MaxRepetitionLevel() != 1 {
		return parquetColumn{}, false
	}
	dt, width := leafType(inner.Type())
	if halves[inner.Index()] {
		dt, width = arrow.FixedWidthTypes.Float16, 2
	}
	return listColumn(inner, dt, width)
}

func isListGroup(c *parquet.Column) bool {
	t := c.Type().LogicalType()
	if t == nil {
		return false
	}
	_, ok := t.Value.(*format.ListType)
	return ok
}

// listColumn is a list of fixed-width values. An item is there from the level of the repeated
// node on: the last level, or the one before where items may be null.
func listColumn(leaf *parquet.Column, dt arrow.DataType, width int) (parquetColumn, bool) {
	if dt == nil || width == 0 {
		return parquetColumn{}, false
	}
	item := leaf.MaxDefinitionLevel()
	if leaf.Optional() {
		item--
	}
	return parquetColumn{leaf: leaf.Index(), dt: arrow.ListOf(dt), elem: dt, width: width, list: true, item: item}, true
}

// leafType is the Arrow type of a leaf and its width in bytes; nil for what is left out.
func leafType(t parquet.Type) (arrow.DataType, int) {
	var logical format.LogicalTypeValue
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	switch v := logical.(type) {
	case *format.IntType:
		return intType(int(v.BitWidth), v.IsSigned)
	case *format.DateType:
		return arrow.FixedWidthTypes.Date32, 4
	case *format.TimestampType:
		dt := &arrow.TimestampType{Unit: timeUnit(v.Unit)}
		if v.IsAdjustedToUTC {
			dt.TimeZone = "UTC"
		}
		return dt, 8
	case *format.TimeType:
		if unit := timeUnit(v.Unit); unit == arrow.Millisecond {
			return &arrow.Time32Type{Unit: unit}, 4
		} else {
			return &arrow.Time64Type{Unit: unit}, 8
		}
	case *format.StringType, *format.EnumType, *format.JsonType:
		return arrow.BinaryTypes.String, 0
	case nil, *format.UUIDType, *format.BsonType:
		return physicalType(t)
	}
	return nil, 0 // decimals, maps, variants, geometry
}

func physicalType(t parquet.Type) (arrow.DataType, int) {
	switch t.Kind() {
	case parquet.Boolean:
		return arrow.FixedWidthTypes.Boolean, 1
	case parquet.Int32:
		return arrow.PrimitiveTypes.Int32, 4
	case parquet.Int64:
		return arrow.PrimitiveTypes.Int64, 8
	case parquet.Float:
		return arrow.PrimitiveTypes.Float32, 4
	case parquet.Double:
		return arrow.PrimitiveTypes.Float64, 8
	case parquet.ByteArray:
		return arrow.BinaryTypes.Binary, 0
	case parquet.FixedLenByteArray:
		return arrow.BinaryTypes.Binary, 0
	}
	return nil, 0 // INT96
}

func intType(bits int, signed bool) (arrow.DataType, int) {
	types := map[int][2]arrow.DataType{
		8:  {arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Int8},
		16: {arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int16},
		32: {arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int32},
		64: {arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int64},
	}[bits]
	if signed {
		return types[1], bits / 8
	}
	return types[0], bits / 8
}

func timeUnit(u format.TimeUnit) arrow.TimeUnit {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return arrow.Millisecond
	case *format.MicroSeconds:
		return arrow.Microsecond
	}
	return arrow.Nanosecond
}

// parquetBuilder gathers the values of a column for one batch.
type parquetBuilder struct {
	column  *parquetColumn
	values  []byte  // fixed-width values, or the bytes of text
	offsets []int32 // of text
	items   int
	valid   []byte // bitmap of items
	nulls   int

	lists     []int32 // offsets of lists
	listValid []byte
	listNulls int
}

func (c *parquetColumn) builder(rows int) *parquetBuilder {
	b := &parquetBuilder{column: c, values: make([]byte, 0, rows*max(c.width, 8)), valid: make([]byte, 0, rows/8+1)}
	if c.width == 0 {
		b.offsets = append(make([]int32, 0, rows+1), 0)
	}
	if c.list {
		b.lists = append(make([]int32, 0, rows+1), 0)
	}
	return b
}

// add appends one value, or item of the list under way.
func (b *parquetBuilder) add(v *parquet.Value, null bool) {
	b.valid = appendBit(b.valid, b.items, !null)
	b.items++
	if null {
		b.nulls++
	}
	switch {
	case b.column.width == 0:
		if !null {
			b.values = append(b.values, v.ByteArray()...)
		}
		b.offsets = append(b.offsets, int32(len(b.values)))
	case null:
		b.values = append(b.values, make([]byte, b.column.width)...)
	default:
		b.values = appendFixed(b.values, v, b.column.width)
	}
}

// appendFixed appends a value in the width of its Arrow type, which may be less than Parquet's.
func appendFixed(dst []byte, v *parquet.Value, width int) []byte {
	var bits uint64
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			bits = 1
		}
	case parquet.Int32:
		bits = uint64(uint32(v.Int32()))
	case parquet.Int64:
		bits = uint64(v.Int64())
	case parquet.Float:
		bits = uint64(math.Float32bits(v.Float()))
	case parquet.Double:
		bits = math.Float64bits(v.Double())
	default: // float16
		return append(dst, v.ByteArray()[:width]...)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], bits)
	return append(dst, b[:width]...)
}

// null ends a row whose list is null.
func (b *parquetBuilder) null() {
	b.listValid = appendBit(b.listValid, len(b.lists)-1, false)
	b.listNulls++
	b.lists = append(b.lists, int32(b.items))
}

// endList ends a row whose items were added.
func (b *parquetBuilder) endList() {
	b.listValid = appendBit(b.listValid, len(b.lists)-1, true)
	b.lists = append(b.lists, int32(b.items))
}

func appendBit(bits []byte, i int, set bool) []byte {
	if i%8 == 0 {
		bits = append(bits, 0)
	}
	if set {
		bits[i/8] |= 1 << (i % 8)
	}
	return bits
}

// done returns the column.
func (b *parquetBuilder) done() arrow.ArrayData {
	buffers := []*memory.Buffer{nil}
	if b.nulls > 0 {
		buffers[0] = memory.NewBufferBytes(b.valid)
	}
	if b.column.width == 0 {
		buffers = append(buffers, memory.NewBufferBytes(arrow.GetBytes(b.offsets)))
	}
	if b.column.elem.ID() == arrow.BOOL {
		b.values = packBits(b.values)
	}
	buffers = append(buffers, memory.NewBufferBytes(b.values))
	values := array.NewData(b.column.elem, b.items, buffers, nil, b.nulls, 0)
	if !b.column.list {
		return values
	}
	bitmap := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(b.lists))}
	if b.listNulls > 0 {
		bitmap[0] = memory.NewBufferBytes(b.listValid)
	}
	return array.NewData(b.column.dt, len(b.lists)-1, bitmap, []arrow.ArrayData{values}, b.listNulls, 0)
}

// packBits turns a byte a value into a bit a value.
func packBits(values []byte) []byte {
	bits := make([]byte, 0, len(values)/8+1)
	for i, v := range values {
		bits = appendBit(bits, i, v != 0)
	}
	return bits
}
