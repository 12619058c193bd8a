package kernel

import "math"

// MaxAbs returns the bits of the largest magnitude in x, without the sign, or 0 if x is empty. As integers such bits
// are ordered by magnitude: infinity is above all finite numbers, and NaN above infinity.
func MaxAbs(x []float64) uint64 { return active().maxAbs(x) }

func maxAbs(x []float64) (m uint64) {
	for _, v := range x {
		m = max(m, math.Float64bits(v)&^(1<<63))
	}
	return m
}
