package format

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// stream is one entry of testdata/streams.json; make_arrow.py says how values are written.
type stream struct {
	Bytes   string
	Code    string
	Rows    int64
	Columns []struct {
		Name, Type string
		Values     []string
	}
}

func (s stream) data(t testing.TB) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func streams(t testing.TB) map[string]stream {
	t.Helper()
	b, err := os.ReadFile("testdata/streams.json")
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]stream
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// dump writes value i of a as make_arrow.py does. It reads every byte that belongs to the value.
func dump(a arrow.Array, i int) string {
	switch a := a.(type) {
	case *array.Null:
		return "null"
	case *array.Dictionary:
		if a.IsNull(i) {
			return "null"
		}
		return dump(a.Dictionary(), a.GetValueIndex(i))
	case *array.RunEndEncoded:
		return dump(a.Values(), a.GetPhysicalIndex(i))
	case *array.SparseUnion:
		return dump(a.Field(a.ChildID(i)), i)
	case *array.DenseUnion:
		return dump(a.Field(a.ChildID(i)), int(a.ValueOffset(i)))
	}
	if a.IsNull(i) {
		return "null"
	}
	if s, ok := dumpNested(a, i); ok {
		return s
	}
	return dumpScalar(a, i)
}

func dumpRange(a arrow.Array, lo, hi int64) string {
	var parts []string
	for k := lo; k < hi; k++ {
		parts = append(parts, dump(a, int(k)))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func dumpNested(a arrow.Array, i int) (string, bool) {
	switch a := a.(type) {
	case *array.Struct:
		var parts []string
		for k := range a.NumField() {
			parts = append(parts, dump(a.Field(k), i))
		}
		return "{" + strings.Join(parts, ",") + "}", true
	case *array.Map:
		lo, hi := a.ValueOffsets(i)
		var parts []string
		for k := lo; k < hi; k++ {
			parts = append(parts, "{"+dump(a.Keys(), int(k))+","+dump(a.Items(), int(k))+"}")
		}
		return "[" + strings.Join(parts, ",") + "]", true
	case array.ListLike: // after Map, which is one too
		lo, hi := a.ValueOffsets(i)
		return dumpRange(a.ListValues(), lo, hi), true
	}
	return "", false
}

func dumpScalar(a arrow.Array, i int) string {
	float := func(x float64) string {
		return "f" + hex.EncodeToString(binary.BigEndian.AppendUint64(nil, math.Float64bits(x)))
	}
	switch a := a.(type) {
	case *array.Float16: // not by its Float32, which scales subnormals wrongly
		h := int(a.Value(i).Uint16())
		return float(half(h>>15, h>>10&31, h&1023))
	case *array.Float32:
		return float(float64(a.Value(i)))
	case *array.Float64:
		return float(a.Value(i))
	case *array.Decimal128:
		return a.Value(i).BigInt().String()
	case *array.Decimal256:
		return a.Value(i).BigInt().String()
	case *array.MonthDayNanoInterval:
		v := a.Value(i)
		return fmt.Sprintf("%d/%d/%d", v.Months, v.Days, v.Nanoseconds)
	case interface{ Value(int) []byte }:
		return "x" + hex.EncodeToString(a.Value(i))
	case interface{ Value(int) string }:
		return "x" + hex.EncodeToString([]byte(a.Value(i)))
	}
	return dumpInteger(a, i)
}

func dumpInteger(a arrow.Array, i int) string {
	switch a := a.(type) {
	case *array.Date32:
		return fmt.Sprintf("%d", int32(a.Value(i)))
	case *array.Date64:
		return fmt.Sprintf("%d", int64(a.Value(i)))
	case *array.Time32:
		return fmt.Sprintf("%d", int32(a.Value(i)))
	case *array.Time64:
		return fmt.Sprintf("%d", int64(a.Value(i)))
	case *array.Timestamp:
		return fmt.Sprintf("%d", int64(a.Value(i)))
	case *array.Duration:
		return fmt.Sprintf("%d", int64(a.Value(i)))
	case *array.MonthInterval:
		return fmt.Sprintf("%d", int32(a.Value(i)))
	case *array.DayTimeInterval:
		return fmt.Sprintf("%d/%d", a.Value(i).Days, a.Value(i).Milliseconds)
	case *array.Boolean:
		return fmt.Sprint(a.Value(i))
	}
	return a.ValueStr(i) // the eight integer types
}

// dumpRecord touches every value of a record.
func dumpRecord(rec arrow.Record) [][]string {
	cols := make([][]string, rec.NumCols())
	for c := range cols {
		for i := range int(rec.NumRows()) {
			cols[c] = append(cols[c], dump(rec.Column(c), i))
		}
	}
	return cols
}

// half is the value of a float16 by the formula of IEEE 754.
func half(sign, exponent, fraction int) float64 {
	v := math.Ldexp(float64(1024+fraction), exponent-25)
	switch {
	case exponent == 31 && fraction > 0:
		v = math.Float64frombits(0x7FF<<52 | uint64(fraction)<<42)
	case exponent == 31:
		v = math.Inf(1)
	case exponent == 0:
		v = math.Ldexp(float64(fraction), -24)
	}
	if sign == 1 {
		return math.Copysign(v, -1)
	}
	return v
}

// newDecoder returns a decoder of a format that exists.
func newDecoder(t testing.TB, c Config) *Decoder {
	t.Helper()
	d, err := NewDecoder(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
