package arrowjson

import (
	"math"
	"strconv"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/internal/rowrecord"
)

// single returns what appends a value of a type that a rowrecord.Record shows, as present does for arrays; nil for other types.
func single(t arrow.DataType, b *bound) func(dst []byte, v rowrecord.Value) []byte {
	if !rowrecord.Shows(t) {
		return nil
	}
	switch t.ID() {
	case arrow.BOOL:
		return func(dst []byte, v rowrecord.Value) []byte { return strconv.AppendBool(dst, v.Bits == 1) }
	case arrow.UINT32, arrow.UINT64:
		return func(dst []byte, v rowrecord.Value) []byte { return strconv.AppendUint(dst, v.Bits, 10) }
	case arrow.FLOAT32:
		return func(dst []byte, v rowrecord.Value) []byte {
			return jsontext.AppendFloat32(dst, math.Float32frombits(uint32(v.Bits)))
		}
	case arrow.FLOAT64:
		return func(dst []byte, v rowrecord.Value) []byte {
			return jsontext.AppendFloat64(dst, math.Float64frombits(v.Bits))
		}
	case arrow.STRING:
		return func(dst []byte, v rowrecord.Value) []byte {
			return b.text(dst, unsafe.String(unsafe.SliceData(v.Text), len(v.Text)))
		}
	case arrow.BINARY:
		return func(dst []byte, v rowrecord.Value) []byte { return b.base(dst, v.Text) }
	case arrow.TIMESTAMP:
		instant := instants(t.(*arrow.TimestampType))
		return func(dst []byte, v rowrecord.Value) []byte { return instant(dst, int64(v.Bits)) }
	case arrow.DURATION:
		span := durations(t.(*arrow.DurationType))
		return func(dst []byte, v rowrecord.Value) []byte { return span(dst, int64(v.Bits)) }
	}
	return func(dst []byte, v rowrecord.Value) []byte { return strconv.AppendInt(dst, int64(v.Bits), 10) }
}
