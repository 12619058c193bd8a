package rowfile

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/decimal256"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// leafReader returns what makes the values of the elements of an array, which are good as long as the array is.
type leafReader func(arrow.Array) func(dst []parquet.Value, of []entry, column int)

// each returns a leafReader of arrays whose values are made one by one.
func each(value func(arrow.Array) func(i int) parquet.Value) leafReader {
	return func(a arrow.Array) func([]parquet.Value, []entry, int) {
		value := value(a)
		return func(dst []parquet.Value, of []entry, column int) {
			for k, e := range of {
				var v parquet.Value
				if e.at >= 0 {
					v = value(int(e.at))
				}
				dst[k] = v.Level(int(e.rep), int(e.def), column)
			}
		}
	}
}

// meant is a type whose values mean something that the library has no type of.
type meant struct {
	parquet.Type
	meaning format.LogicalTypeValue
}

func (m meant) LogicalType() *format.LogicalType { return &format.LogicalType{Value: m.meaning} }

// leafOf returns the node of a type without children, and the reader of its arrays; nil: there is none.
func leafOf(dt arrow.DataType) (parquet.Node, leafReader) {
	if d, ok := dt.(arrow.DecimalType); ok && d.GetScale() < 0 { // which Parquet has not
		return nil, nil
	}
	switch dt := dt.(type) {
	case *arrow.DictionaryType:
		node, words := leafOf(dt.ValueType)
		if words == nil {
			return nil, nil
		}
		return node, func(a arrow.Array) func([]parquet.Value, []entry, int) {
			d := a.(*array.Dictionary)
			read := words(d.Dictionary())
			return func(dst []parquet.Value, of []entry, column int) {
				for i := range of { // nothing reads them after us
					if e := &of[i]; e.at >= 0 {
						e.at = int32(d.GetValueIndex(int(e.at)))
					}
				}
				read(dst, of, column)
			}
		}
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		return parquet.Encoded(parquet.String(), &parquet.RLEDictionary), each(texts)
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType:
		return parquet.Encoded(parquet.Leaf(parquet.ByteArrayType), &parquet.RLEDictionary), each(byteArrays)
	case *arrow.FixedSizeBinaryType:
		if dt.ByteWidth < 1 {
			return nil, nil
		}
		return parquet.Leaf(parquet.FixedLenByteArrayType(dt.ByteWidth)), each(func(a arrow.Array) func(int) parquet.Value {
			f := a.(*array.FixedSizeBinary)
			return func(i int) parquet.Value { return parquet.FixedLenByteArrayValue(f.Value(i)) }
		})
	case *arrow.Decimal128Type:
		return parquet.Decimal(int(dt.Scale), int(dt.Precision), parquet.FixedLenByteArrayType(16)), reads((*array.Decimal128).Values, func(n decimal128.Num) parquet.Value {
			b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(n.HighBits()))
			return parquet.FixedLenByteArrayValue(binary.BigEndian.AppendUint64(b, n.LowBits()))
		})
	case *arrow.Decimal256Type:
		return parquet.Decimal(int(dt.Scale), int(dt.Precision), parquet.FixedLenByteArrayType(32)), reads((*array.Decimal256).Values, func(n decimal256.Num) parquet.Value {
			b, words := make([]byte, 0, 32), n.Array()
			for k := len(words) - 1; k >= 0; k-- {
				b = binary.BigEndian.AppendUint64(b, words[k])
			}
			return parquet.FixedLenByteArrayValue(b)
		})
	case *arrow.TimestampType, *arrow.Time32Type, *arrow.Time64Type, *arrow.Date32Type, *arrow.Date64Type, *arrow.DurationType:
		return timeOf(dt)
	}
	return numberOf(dt)
}

func numberOf(dt arrow.DataType) (parquet.Node, leafReader) {
	switch dt.ID() {
	case arrow.NULL:
		return parquet.Leaf(meant{parquet.Int32Type, new(format.NullType)}), each(func(arrow.Array) func(int) parquet.Value {
			return func(int) parquet.Value { return parquet.NullValue() }
		})
	case arrow.BOOL:
		return parquet.Leaf(parquet.BooleanType), each(func(a arrow.Array) func(int) parquet.Value {
			b := a.(*array.Boolean)
			return func(i int) parquet.Value { return parquet.BooleanValue(b.Value(i)) }
		})
	case arrow.INT8:
		return parquet.Int(8), reads((*array.Int8).Int8Values, int32Value)
	case arrow.INT16:
		return parquet.Int(16), reads((*array.Int16).Int16Values, int32Value)
	case arrow.INT32:
		return parquet.Int(32), reads((*array.Int32).Int32Values, int32Value)
	case arrow.INT64:
		return parquet.Int(64), reads((*array.Int64).Int64Values, int64Value)
	case arrow.UINT8:
		return parquet.Uint(8), reads((*array.Uint8).Uint8Values, int32Value)
	case arrow.UINT16:
		return parquet.Uint(16), reads((*array.Uint16).Uint16Values, int32Value)
	case arrow.UINT32:
		return parquet.Uint(32), reads((*array.Uint32).Uint32Values, int32Value)
	case arrow.UINT64:
		return parquet.Uint(64), reads((*array.Uint64).Uint64Values, int64Value)
	case arrow.FLOAT16:
		return parquet.Leaf(meant{parquet.FixedLenByteArrayType(2), new(format.Float16Type)}), reads((*array.Float16).Values, func(n float16.Num) parquet.Value {
			return parquet.FixedLenByteArrayValue(binary.LittleEndian.AppendUint16(nil, n.Uint16()))
		})
	case arrow.FLOAT32:
		return parquet.Leaf(parquet.FloatType), reads((*array.Float32).Float32Values, parquet.FloatValue)
	case arrow.FLOAT64:
		return parquet.Leaf(parquet.DoubleType), reads((*array.Float64).Float64Values, parquet.DoubleValue)
	}
	return nil, nil
}

// timeOf is leafOf for times. Parquet has no unit of seconds, and days for dates only; it has no durations, which are numbers in their unit.
func timeOf(dt arrow.DataType) (parquet.Node, leafReader) {
	switch dt := dt.(type) {
	case *arrow.TimestampType:
		unit, factor := unitOf(dt.Unit)
		return parquet.TimestampAdjusted(unit, dt.TimeZone != ""), reads((*array.Timestamp).TimestampValues, func(t arrow.Timestamp) parquet.Value { return parquet.Int64Value(int64(t) * factor) })
	case *arrow.Time32Type:
		unit, factor := unitOf(dt.Unit)
		return parquet.TimeAdjusted(unit, false), reads((*array.Time32).Time32Values, func(t arrow.Time32) parquet.Value { return parquet.Int32Value(int32(t) * int32(factor)) })
	case *arrow.Time64Type:
		unit, _ := unitOf(dt.Unit)
		return parquet.TimeAdjusted(unit, false), reads((*array.Time64).Time64Values, int64Value)
	case *arrow.Date32Type:
		return parquet.Date(), reads((*array.Date32).Date32Values, int32Value)
	case *arrow.Date64Type:
		return parquet.Date(), reads((*array.Date64).Date64Values, func(t arrow.Date64) parquet.Value { return parquet.Int32Value(int32(t / dayMillis)) })
	}
	return parquet.Int(64), reads((*array.Duration).DurationValues, int64Value)
}

const dayMillis = 24 * 3600 * 1000

// unitOf returns the unit of Parquet, and how many of it are one of Arrow's.
func unitOf(u arrow.TimeUnit) (parquet.TimeUnit, int64) {
	switch u {
	case arrow.Second:
		return parquet.Millisecond, 1000
	case arrow.Millisecond:
		return parquet.Millisecond, 1
	case arrow.Microsecond:
		return parquet.Microsecond, 1
	}
	return parquet.Nanosecond, 1
}

// fit returns what reports whether values of an array fit into the type that they are written as.
type fit func(arrow.Array) func(i int) bool

// fitsOf returns the fit of a type whose unit Parquet has not; nil: all values of it fit.
func fitsOf(dt arrow.DataType) fit {
	switch dt := dt.(type) {
	case *arrow.TimestampType:
		if _, factor := unitOf(dt.Unit); factor > 1 {
			return within64((*array.Timestamp).TimestampValues, math.MaxInt64/factor)
		}
	case *arrow.Time32Type:
		if _, factor := unitOf(dt.Unit); factor > 1 {
			return within64((*array.Time32).Time32Values, math.MaxInt32/factor)
		}
	case *arrow.Date64Type:
		return within64((*array.Date64).Date64Values, math.MaxInt32*dayMillis)
	case *arrow.DictionaryType:
		if words := fitsOf(dt.ValueType); words != nil {
			return func(a arrow.Array) func(int) bool {
				d := a.(*array.Dictionary)
				fits := words(d.Dictionary())
				return func(i int) bool { return fits(d.GetValueIndex(i)) }
			}
		}
	}
	return nil
}

func within64[A arrow.Array, T ~int32 | ~int64](values func(A) []T, most int64) fit {
	return func(a arrow.Array) func(int) bool {
		v := values(a.(A))
		return func(i int) bool { return int64(v[i]) <= most && int64(v[i]) >= -most }
	}
}

// reads returns the reader of arrays of numbers.
func reads[A arrow.Array, T any](values func(A) []T, value func(T) parquet.Value) leafReader {
	return func(a arrow.Array) func([]parquet.Value, []entry, int) {
		v := values(a.(A))
		return func(dst []parquet.Value, of []entry, column int) {
			for k, e := range of {
				if e.at >= 0 {
					dst[k] = value(v[e.at]).Level(int(e.rep), int(e.def), column)
				} else {
					dst[k] = parquet.Value{}.Level(int(e.rep), int(e.def), column)
				}
			}
		}
	}
}

func int32Value[T ~int8 | ~int16 | ~int32 | ~uint8 | ~uint16 | ~uint32](v T) parquet.Value {
	return parquet.Int32Value(int32(v))
}

func int64Value[T ~int64 | ~uint64](v T) parquet.Value { return parquet.Int64Value(int64(v)) }

func texts(a arrow.Array) func(int) parquet.Value {
	s := a.(array.StringLike)
	return func(i int) parquet.Value {
		text := s.Value(i)
		return parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(text), len(text)))
	}
}

func byteArrays(a arrow.Array) func(int) parquet.Value {
	b := a.(interface{ Value(i int) []byte })
	return func(i int) parquet.Value { return parquet.ByteArrayValue(b.Value(i)) }
}
