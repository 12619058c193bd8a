package format

import (
	"bytes"
	"encoding/binary"
	"math"
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
	stored  int                        // bytes of a value; 0 for text and bytes
	bits    bool                       // values are stored as bits
	convert func(dst, src []byte) fate // writes a value as dt has it; nil: as it is stored
	short   int                        // values that are shortened
	lost    int                        // values that are null, because dt has them not
}

// fate is what becomes of a value.
type fate uint8

const (
	kept      fate = iota
	shortened      // written without its last digits
	lost           // not written
)

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
		l.dt, l.stored, l.convert = &arrow.TimestampType{Unit: arrow.Microsecond}, 12, fromInt96
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
				l.convert = func(dst, src []byte) fate {
					copy(dst, src)
					return kept
				}
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
func extend(dst, src []byte) fate {
	n := copy(dst, src)
	fillSign(dst[n:], src[len(src)-1])
	return kept
}

// extendBigEndian writes an integer whose highest byte comes first with the lowest first.
func extendBigEndian(dst, src []byte) fate {
	if len(src) == 0 {
		clear(dst)
		return kept
	}
	high := src[0]
	src = src[max(0, len(src)-len(dst)):]
	for i := range src {
		dst[i] = src[len(src)-1-i]
	}
	fillSign(dst[len(src):], high)
	return kept
}

func fillSign(dst []byte, high byte) {
	for i := range dst {
		dst[i] = byte(int8(high) >> 7)
	}
}

// fromInt96 writes a time of 64 bits, in microseconds since 1970, for one of nanoseconds in a Julian day and the day. Spark, Hive and
// Impala write "no end" as 9999-12-31, and nanoseconds of 64 bits end in 2262. The unit is the same for all files, because a schema is
// needed before the first row, and because a feature's numbers must mean the same in each file. Spark itself has microseconds,
// and reads no nanoseconds. A time beyond the years ±292,000 is lost.
func fromInt96(dst, src []byte) fate {
	const (
		epoch    = 2440588 // the Julian day of 1970-01-01
		dayLong  = 24 * 3600 * 1_000_000
		mostDays = (math.MaxInt64 - math.MaxInt64/1000) / dayLong
	)
	day, nanoseconds := int64(binary.LittleEndian.Uint32(src[8:]))-epoch, int64(binary.LittleEndian.Uint64(src))
	if day < -mostDays || day > mostDays {
		return lost
	}
	microseconds, rest := nanoseconds/1000, nanoseconds%1000
	if rest < 0 {
		microseconds--
	}
	binary.LittleEndian.PutUint64(dst, uint64(day*dayLong+microseconds))
	if rest != 0 {
		return shortened
	}
	return kept
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
		var gone []int
		if values, gone = l.converted(v, width); len(gone) > 0 {
			if nulls == 0 {
				bitmap = memory.NewBufferBytes(bytes.Repeat([]byte{0xff}, (length+7)/8))
			}
			values = without(values, gone, width)
			unset(bitmap.Bytes(), gone)
			nulls += len(gone)
		}
	}
	if nulls > 0 {
		values = spread(values, bitmap.Bytes(), length, width)
	}
	if l.bits {
		values = packBits(values)
	}
	return array.NewData(l.dt, length, []*memory.Buffer{bitmap, memory.NewBufferBytes(values)}, nil, nulls, 0), nil
}

// converted returns the values in a width, and which of them are lost.
func (l *parquetLeaf) converted(v *leafValues, width int) (values []byte, gone []int) {
	values = make([]byte, v.count*width)
	for i := range v.count {
		from, to := i*l.stored, (i+1)*l.stored
		if l.stored == 0 {
			from, to = int(v.offsets[i]), int(v.offsets[i+1])
		}
		switch l.convert(values[i*width:(i+1)*width], v.dense[from:to]) {
		case shortened:
			l.short++
		case lost:
			l.lost, gone = l.lost+1, append(gone, i)
		}
	}
	return values, gone
}

// without leaves values out.
func without(values []byte, gone []int, width int) []byte {
	kept := values[:0]
	for i := 0; i*width < len(values); i++ {
		if len(gone) > 0 && gone[0] == i {
			gone = gone[1:]
			continue
		}
		kept = append(kept, values[i*width:(i+1)*width]...)
	}
	return kept
}

// unset makes values null, of which each is known by how many there are before it.
func unset(bitmap []byte, gone []int) {
	for i, n := 0, 0; len(gone) > 0; i++ {
		if bitmap[i/8]>>(i%8)&1 == 0 {
			continue
		}
		if n == gone[0] {
			bitmap[i/8] &^= 1 << (i % 8)
			gone = gone[1:]
		}
		n++
	}
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
