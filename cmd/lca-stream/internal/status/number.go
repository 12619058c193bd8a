package status

import (
	"math"
	"strconv"
)

// Number is a float64 that JSON can always represent: NaN and the infinities are null. Encoding/json would refuse the
// whole answer because of one of them.
type Number float64

// MarshalJSON writes the shortest digits that give the same float64 again.
func (v Number) MarshalJSON() ([]byte, error) { return marshal(float64(v), -1), nil }

// Rough is a Number for drawing: there are many of them in an answer, and a pixel needs four digits.
type Rough float64

// MarshalJSON writes four significant digits.
func (v Rough) MarshalJSON() ([]byte, error) { return marshal(float64(v), 4), nil }

func marshal(v float64, digits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null")
	}
	return strconv.AppendFloat(nil, v, 'g', digits, 64)
}

func convert[T Number | Rough](all []float64) []T {
	out := make([]T, len(all))
	for i, v := range all {
		out[i] = T(v)
	}
	return out
}
