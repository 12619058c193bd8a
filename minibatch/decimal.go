package minibatch

import (
	"math/big"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/decimal256"
)

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
