package minibatch

import (
	"math"
	"math/big"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/decimal256"
	"github.com/apache/arrow/go/v15/arrow/float16"
)

// packWidth is the number of columns that are transposed together: eight float64 are one cache line.
const packWidth = 8

type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// packGroup writes columns of one type to columns j… of dst and adds them to the row sums. It returns the column
// whose dictionary is broken, or −1.
func packGroup(dst *Rows, j int, cols []arrow.Array) (bad int) {
	switch cols[0].DataType().ID() {
	case arrow.INT8:
		packAll(dst, j, cols, raw[int8])
	case arrow.INT16:
		packAll(dst, j, cols, raw[int16])
	case arrow.INT32, arrow.DATE32, arrow.TIME32:
		packAll(dst, j, cols, raw[int32])
	case arrow.INT64, arrow.DATE64, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		packAll(dst, j, cols, raw[int64])
	case arrow.UINT8:
		packAll(dst, j, cols, raw[uint8])
	case arrow.UINT16:
		packAll(dst, j, cols, raw[uint16])
	case arrow.UINT32:
		packAll(dst, j, cols, raw[uint32])
	case arrow.UINT64:
		packAll(dst, j, cols, raw[uint64])
	case arrow.FLOAT32:
		packAll(dst, j, cols, raw[float32])
	case arrow.FLOAT64:
		packAll(dst, j, cols, raw[float64])
	case arrow.NULL: // every row is already marked
	default: // rare enough for a temporary column
		wide := make([]float64, dst.N)
		for g, col := range cols {
			if !widen(wide, col, 0) {
				return g
			}
			pack1(dst.X, dst.Dim, j+g, wide, dst.sums)
		}
	}
	return -1
}

func packAll[T number](dst *Rows, j int, cols []arrow.Array, values func(arrow.Array) []T) {
	if len(cols) == packWidth {
		var c [packWidth][]T
		for g := range c {
			c[g] = values(cols[g])
		}
		pack8(dst.X, dst.Dim, j, &c, dst.sums)
		return
	}
	for g, col := range cols {
		pack1(dst.X, dst.Dim, j+g, values(col), dst.sums)
	}
}

// raw returns a column's values in memory, from its offset on.
func raw[T number](col arrow.Array) []T {
	data := col.Data()
	if data.Len() == 0 {
		return nil
	}
	return arrow.GetData[T](data.Buffers()[1].Bytes())[data.Offset() : data.Offset()+data.Len()]
}

func pack8[T number](x []float64, d, j int, c *[packWidth][]T, sums []float64) {
	n := len(sums)
	c0, c1, c2, c3 := c[0][:n], c[1][:n], c[2][:n], c[3][:n]
	c4, c5, c6, c7 := c[4][:n], c[5][:n], c[6][:n], c[7][:n]
	for i := range n {
		row := x[i*d+j:][:packWidth]
		v0, v1, v2, v3 := float64(c0[i]), float64(c1[i]), float64(c2[i]), float64(c3[i])
		v4, v5, v6, v7 := float64(c4[i]), float64(c5[i]), float64(c6[i]), float64(c7[i])
		row[0], row[1], row[2], row[3] = v0, v1, v2, v3
		row[4], row[5], row[6], row[7] = v4, v5, v6, v7
		sums[i] += ((v0 + v1) + (v2 + v3)) + ((v4 + v5) + (v6 + v7))
	}
}

func pack1[T number](x []float64, d, j int, c []T, sums []float64) {
	for i := range sums {
		v := float64(c[i])
		x[i*d+j] = v
		sums[i] += v
	}
}

// widen converts len(dst) values of an array from start on to float64. A value under a null is undefined. It returns
// false if a dictionary index is out of range.
func widen(dst []float64, values arrow.Array, start int) bool {
	if len(dst) == 0 {
		return true
	}
	switch v := values.(type) {
	case *array.Float16:
		widenHalf(dst, v.Values()[start:])
	case *array.Boolean:
		widenBits(dst, v, start)
	case *array.Decimal128:
		widenDecimals(dst, v.Values()[start:], v.DataType().(arrow.DecimalType).GetScale())
	case *array.Decimal256:
		widenDecimals(dst, v.Values()[start:], v.DataType().(arrow.DecimalType).GetScale())
	case *array.Dictionary:
		return widenDictionary(dst, v, start)
	}
	switch values.DataType().ID() {
	case arrow.INT8:
		widenAll(dst, raw[int8](values)[start:])
	case arrow.INT16:
		widenAll(dst, raw[int16](values)[start:])
	case arrow.INT32, arrow.DATE32, arrow.TIME32:
		widenAll(dst, raw[int32](values)[start:])
	case arrow.INT64, arrow.DATE64, arrow.TIME64, arrow.TIMESTAMP, arrow.DURATION:
		widenAll(dst, raw[int64](values)[start:])
	case arrow.UINT8:
		widenAll(dst, raw[uint8](values)[start:])
	case arrow.UINT16:
		widenAll(dst, raw[uint16](values)[start:])
	case arrow.UINT32:
		widenAll(dst, raw[uint32](values)[start:])
	case arrow.UINT64:
		widenAll(dst, raw[uint64](values)[start:])
	case arrow.FLOAT32:
		widenAll(dst, raw[float32](values)[start:])
	case arrow.FLOAT64:
		copy(dst, raw[float64](values)[start:])
	}
	return true
}

func widenAll[T number](dst []float64, src []T) {
	for i, v := range src[:len(dst)] {
		dst[i] = float64(v)
	}
}

func widenHalf(dst []float64, src []float16.Num) {
	for i, v := range src[:len(dst)] {
		dst[i] = halfToFloat(v.Uint16())
	}
}

// halfToFloat converts the bits of a float16. (Num.Float32 of arrow/go v15 scales subnormals wrongly.)
func halfToFloat(bits uint16) float64 {
	sign, exponent, fraction := uint64(bits>>15), int(bits>>10&31), uint64(bits&1023)
	switch exponent {
	case 0: // zero and subnormals: fraction · 2^−24, exact
		return math.Copysign(float64(fraction)*0x1p-24, 0.5-float64(sign))
	case 31: // infinities and NaN, whose payload is preserved
		return math.Float64frombits(sign<<63 | 0x7FF<<52 | fraction<<42)
	}
	return math.Float64frombits(sign<<63 | uint64(exponent-15+1023)<<52 | fraction<<42)
}

// widenDecimals converts decimals to the nearest float64. (Num.ToFloat64 of arrow/go v15 multiplies by a power of ten
// that is rounded already: 0.3 comes out as 0.30000000000000004.)
func widenDecimals[T decimal128.Num | decimal256.Num](dst []float64, src []T, scale int32) {
	for i, v := range src[:len(dst)] {
		dst[i] = decimalToFloat(v, scale)
	}
}

// exactPowers are the powers of ten that float64 holds exactly.
var exactPowers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

func decimalToFloat[T decimal128.Num | decimal256.Num](v T, scale int32) float64 {
	var digits *big.Int
	switch v := any(v).(type) {
	case decimal128.Num:
		// Both numbers are exact, so the quotient is rounded once.
		if high, low := v.HighBits(), int64(v.LowBits()); high == low>>63 && low == low<<10>>10 && scale >= 0 && int(scale) < len(exactPowers) {
			return float64(low) / exactPowers[scale]
		}
		digits = v.BigInt()
	case decimal256.Num:
		digits = v.BigInt()
	}
	// An error is that of a number beyond float64, which is an infinity.
	x, _ := strconv.ParseFloat(digits.String()+"e"+strconv.Itoa(-int(scale)), 64)
	return x
}

// widenBits converts booleans to 0 and 1.
func widenBits(dst []float64, v *array.Boolean, start int) {
	for i := range dst {
		dst[i] = 0
		if v.Value(start + i) {
			dst[i] = 1
		}
	}
}

// widenDictionary looks values up. The index under a null is undefined and not read.
func widenDictionary(dst []float64, d *array.Dictionary, start int) bool {
	entries := d.Dictionary()
	table := make([]float64, entries.Len())
	if !widen(table, entries, 0) {
		return false
	}
	for i := range dst {
		if d.IsNull(start + i) {
			dst[i] = 0
			continue
		}
		k := d.GetValueIndex(start + i)
		if k < 0 || k >= len(table) {
			return false
		}
		dst[i] = table[k]
	}
	return true
}

// hasNulls reports whether isNull may return true for any value.
func hasNulls(col arrow.Array) bool {
	if d, ok := col.(*array.Dictionary); ok && d.Dictionary().NullN() > 0 {
		return true
	}
	return col.NullN() > 0
}

// isNull also follows a dictionary: a valid index may point to a null entry.
func isNull(col arrow.Array, i int) bool {
	if col.IsNull(i) {
		return true
	}
	d, ok := col.(*array.Dictionary)
	if !ok || d.Dictionary().NullN() == 0 {
		return false
	}
	k := d.GetValueIndex(i)
	return k >= 0 && k < d.Dictionary().Len() && d.Dictionary().IsNull(k)
}
