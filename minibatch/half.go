package minibatch

import "math"

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
