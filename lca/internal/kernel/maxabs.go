package kernel

import "math"

// Largest returns the bits of the largest magnitude in x, without the sign; 0 of none. As integers they are in
// the order of magnitudes: above all finite ones comes the infinity, and above that NaN.
func Largest(x []float64) uint64 { return active().maxAbs(x) }

func maxAbs(x []float64) (m uint64) {
	for _, v := range x {
		m = max(m, math.Float64bits(v)&^(1<<63))
	}
	return m
}
