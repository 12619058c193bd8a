package kernel

import "math"

// fma32 returns a·b + c rounded once to float32.
//
// The product of two float32 is exact in float64. Their float64 sum with c is rounded, and
// rounding it again to float32 is wrong in one case only: the sum was rounded to a point half-way
// between two float32, from where the second rounding cannot know on which side the exact sum lay
// (a = b = 1+2⁻¹², c = 2⁻⁸⁰). That case, and results so small that half-way points lie elsewhere,
// go the long way.
func fma32(a, b, c float32) float32 {
	s := float64(a)*float64(b) + float64(c)
	if u := math.Float64bits(s); u&(1<<29-1) == 1<<28 || u<<1 < (1023-126)<<53 {
		return fma32Odd(a, b, c)
	}
	return float32(s)
}

// fma32Odd is fma32 by rounding to odd: when the float64 sum is inexact, take the neighbour whose
// last bit is one. It is never a half-way point, and on the exact sum's side of each.
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
