package format

import (
	"encoding/binary"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetLeaf is a leaf of a file, and how its values become those of an Arrow array.
type parquetLeaf struct {
	path           string
	names          []string
	guard          *pageGuard
	column         int // its number among the leaves of the file
	maxDef, maxRep byte

	dt      arrow.DataType
	stored  int                   // bytes of a value; 0 for text and bytes
	bits    bool                  // values are stored as bits
	convert func(dst, src []byte) // writes a value as dt has it; nil: as it is stored
}

// float16Leaves are the leaves of half-precision numbers.
func float16Leaves(m *format.FileMetaData) map[int]bool {
	leaves, n := map[int]bool{}, 0
	for _, e := range m.Schema {
		if !e.Type.Valid {
			continue
		}
		if _, ok := e.LogicalType.Value.(*format.Float16Type); ok {
			leaves[n] = true
		}
		n++
	}
	return leaves
}

// parquetLeafOf maps a leaf; one that cannot be read has no type.
func parquetLeafOf(c *parquet.Column, half bool) parquetLeaf {
	l := parquetLeaf{
		path: strings.Join(c.Path(), "."), names: c.Path(), column: c.Index(),
		maxDef: byte(c.MaxDefinitionLevel()), maxRep: byte(c.MaxRepetitionLevel()),
	}
	t := c.Type()
	if logical := t.LogicalType(); logical != nil {
		if _, ok := logical.Value.(*format.NullType); ok { // it has no physical type here
			l.dt, l.stored = arrow.Null, 1
			return l
		}
	}
	if l.physical(t); l.dt == nil {
		return l
	}
	if half && l.stored == 2 {
		l.dt = arrow.FixedWidthTypes.Float16
	} else if logical := t.LogicalType(); logical != nil {
		l.logical(logical.Value, t.Kind())
	}
	return l
}

// bytes is what a value takes at least, as it is read and as it is in an array.
func (l *parquetLeaf) bytes() int64 {
	const offset, levels = 4, 2
	return 2*int64(max(l.stored, offset)) + levels
}

// physical takes the type that the values are stored in.
func (l *parquetLeaf) physical(t parquet.Type) {
	switch t.Kind() {
	case parquet.Boolean:
		l.dt, l.stored, l.bits = arrow.FixedWidthTypes.Boolean, 1, true
	case parquet.Int32:
		l.dt, l.stored = arrow.PrimitiveTypes.Int32, 4
	case parquet.Int64:
		l.dt, l.stored = arrow.PrimitiveTypes.Int64, 8
	case parquet.Int96:
		l.dt, l.stored, l.convert = &arrow.TimestampType{Unit: arrow.Nanosecond}, 12, fromInt96
	case parquet.Float:
		l.dt, l.stored = arrow.PrimitiveTypes.Float32, 4
	case parquet.Double:
		l.dt, l.stored = arrow.PrimitiveTypes.Float64, 8
	case parquet.ByteArray:
		l.dt = arrow.BinaryTypes.Binary
	case parquet.FixedLenByteArray:
		if n := t.Length(); n > 0 {
			l.dt, l.stored = &arrow.FixedSizeBinaryType{ByteWidth: n}, n
		}
	}
}

// logical takes what the values mean. A meaning that Arrow has no type of leaves them as they are stored.
func (l *parquetLeaf) logical(v format.LogicalTypeValue, stored parquet.Kind) {
	switch v := v.(type) {
	case *format.IntType:
		if dt := intType(int(v.BitWidth), v.IsSigned); dt != nil {
			l.dt = dt
			if dt.(arrow.FixedWidthDataType).Bytes() < l.stored {
				l.convert = func(dst, src []byte) { copy(dst, src) }
			}
		}
	case *format.DateType:
		l.dt = arrow.FixedWidthTypes.Date32
	case *format.TimestampType:
		dt := &arrow.TimestampType{Unit: timeUnit(v.Unit)}
		if v.IsAdjustedToUTC {
			dt.TimeZone = "UTC"
		}
		l.dt = dt
	case *format.TimeType:
		if unit := timeUnit(v.Unit); unit == arrow.Millisecond {
			l.dt = &arrow.Time32Type{Unit: unit}
		} else {
			l.dt = &arrow.Time64Type{Unit: unit}
		}
	case *format.StringType, *format.EnumType, *format.JsonType:
		l.dt = arrow.BinaryTypes.String
	case *format.DecimalType:
		l.decimal(v, stored)
	}
}

// decimal makes the values 128 or 256 bits, whichever the precision needs.
func (l *parquetLeaf) decimal(v *format.DecimalType, stored parquet.Kind) {
	switch {
	case v.Precision < 1 || v.Precision > 76:
		return
	case v.Precision > 38:
		l.dt = &arrow.Decimal256Type{Precision: v.Precision, Scale: v.Scale}
	default:
		l.dt = &arrow.Decimal128Type{Precision: v.Precision, Scale: v.Scale}
	}
	l.convert = extend
	if stored == parquet.ByteArray || stored == parquet.FixedLenByteArray {
		l.convert = extendBigEndian
	}
}

// extend writes an integer with more bytes, the lowest first.
func extend(dst, src []byte) {
	n := copy(dst, src)
	fillSign(dst[n:], src[len(src)-1])
}

// extendBigEndian writes an integer whose highest byte comes first with the lowest first.
func extendBigEndian(dst, src []byte) {
	if len(src) == 0 {
		clear(dst)
		return
	}
	high := src[0]
	src = src[max(0, len(src)-len(dst)):]
	for i := range src {
		dst[i] = src[len(src)-1-i]
	}
	fillSign(dst[len(src):], high)
}

func fillSign(dst []byte, high byte) {
	for i := range dst {
		dst[i] = byte(int8(high) >> 7)
	}
}

// fromInt96 writes a time of 64 bits, in nanoseconds since 1970, for one of nanoseconds in a Julian day and the day.
func fromInt96(dst, src []byte) {
	const epoch = 2440588 // the Julian day of 1970-01-01
	day := int64(binary.LittleEndian.Uint32(src[8:])) - epoch
	binary.LittleEndian.PutUint64(dst, uint64(day*24*3600*1e9+int64(binary.LittleEndian.Uint64(src))))
}

func intType(bits int, signed bool) arrow.DataType {
	types := map[int][2]arrow.DataType{
		8:  {arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Int8},
		16: {arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int16},
		32: {arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int32},
		64: {arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int64},
	}[bits]
	if signed {
		return types[1]
	}
	return types[0]
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

// array returns the array of a leaf, of which the bitmap says where it is null.
func (l *parquetLeaf) array(v *leafValues, bitmap *memory.Buffer, length, nulls int) (arrow.ArrayData, error) {
	if v.count != length-nulls {
		return nil, errLevels
	}
	if l.dt == arrow.Null {
		return array.NewData(l.dt, length, []*memory.Buffer{nil}, nil, length, 0), nil
	}
	if l.convert == nil && l.stored == 0 {
		if nulls > 0 {
			v.offsets = spreadOffsets(v.offsets, bitmap.Bytes(), length)
		}
		buffers := []*memory.Buffer{bitmap, memory.NewBufferBytes(arrow.GetBytes(v.offsets)), memory.NewBufferBytes(v.dense)}
		return array.NewData(l.dt, length, buffers, nil, nulls, 0), nil
	}
	values, width := v.dense, l.stored
	if l.convert != nil {
		width = l.dt.(arrow.FixedWidthDataType).Bytes()
		values = l.converted(v, width)
	}
	if nulls > 0 {
		values = spread(values, bitmap.Bytes(), length, width)
	}
	if l.bits {
		values = packBits(values)
	}
	return array.NewData(l.dt, length, []*memory.Buffer{bitmap, memory.NewBufferBytes(values)}, nil, nulls, 0), nil
}

// converted returns the values in a width.
func (l *parquetLeaf) converted(v *leafValues, width int) []byte {
	values := make([]byte, v.count*width)
	for i := range v.count {
		from, to := i*l.stored, (i+1)*l.stored
		if l.stored == 0 {
			from, to = int(v.offsets[i]), int(v.offsets[i+1])
		}
		l.convert(values[i*width:(i+1)*width], v.dense[from:to])
	}
	return values
}

// spread gives nulls, which have no value in Parquet, one of zeros.
func spread(dense, bitmap []byte, length, width int) []byte {
	values := make([]byte, length*width)
	switch width {
	case 4:
		spreadOver(arrow.GetData[uint32](values), arrow.GetData[uint32](dense), bitmap)
	case 8:
		spreadOver(arrow.GetData[uint64](values), arrow.GetData[uint64](dense), bitmap)
	default:
		for i := range length {
			if bitmap[i/8]>>(i%8)&1 == 1 {
				copy(values[i*width:(i+1)*width], dense)
				dense = dense[width:]
			}
		}
	}
	return values
}

func spreadOver[T uint32 | uint64](dst, dense []T, bitmap []byte) {
	k := 0
	for i := range dst {
		if bitmap[i>>3]>>(i&7)&1 == 1 {
			dst[i] = dense[k]
			k++
		}
	}
}

// spreadOffsets gives nulls texts of no bytes.
func spreadOffsets(dense []int32, bitmap []byte, length int) []int32 {
	offsets, k := make([]int32, length+1), 0
	for i := range length {
		k += int(bitmap[i/8] >> (i % 8) & 1)
		offsets[i+1] = dense[k]
	}
	return offsets
}

// packBits turns a byte per value into a bit per value.
func packBits(values []byte) []byte {
	bits := make([]byte, (len(values)+7)/8)
	for i, v := range values {
		bits[i/8] |= v << (i % 8)
	}
	return bits
}
