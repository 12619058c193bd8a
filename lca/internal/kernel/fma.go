package kernel

import "math"

// fma32 returns a·b + c rounded once to float32.
//
// The product of two float32 is exact in float64. Their float64 sum with c is rounded, and
// rounding it again to float32 is wrong in one case only: if the first rounding gave a point half-way
// between two float32, the second cannot know on which side of it the exact sum was
// (a = b = 1+2⁻¹², c = 2⁻⁸⁰). fma32Odd handles that case, and subnormal results, whose half-way
// points are elsewhere.
func fma32(a, b, c float32) float32 {
	s := float64(a)*float64(b) + float64(c)
	if u := math.Float64bits(s); u&(1<<29-1) == 1<<28 || u<<1 < (1023-126)<<53 {
		return fma32Odd(a, b, c)
	}
	return float32(s)
}

// fma32Odd is fma32 by rounding to odd: if the float64 sum is inexact, it takes the neighbour whose last bit is one.
// That is never a half-way point, and is on the same side of each as the exact sum.
func fma32Odd(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := p + z
	t := s - p // Knuth's two-sum: p + z = s + e exactly
	e := (p - (s - t)) + (z - t)
	u := math.Float64bits(s)
	if e != 0 && u&1 == 0 && !math.IsNaN(e) {
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	return float32(math.Float64frombits(u))
}
