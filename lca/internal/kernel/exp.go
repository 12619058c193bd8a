package kernel

import "math"

// exp(t) = 2ⁿ·eʳ with n = round(t/ln 2), r = t − n·ln 2 in [−½ln 2, ½ln 2], and eʳ by its Taylor
// polynomial, whose first omitted term is below a tenth of an ulp. Adding 1.5·2^23 (1.5·2^52 in float64) to
// t/ln 2 rounds it to an integer, which the sum holds in its low bits.
const (
	cut32, low32   = -67, -68 // exp is zero below cut; arguments below low are replaced by low first
	cut64, low64   = -688, -689
	magic32        = 1.5 * (1 << 23)
	magic64        = 1.5 * (1 << 52)
	ln2High32      = 0.693359375 // nine bits: n·ln2High32 is exact
	ln2Low32       = -2.12194440054690583e-4
	ln2High64      = 6.93147180369123816490e-01
	ln2Low64       = 1.90821492927058770002e-10
	terms32        = 7  // degree of the polynomial: (½ln 2)⁸/8! = 5e-9 < 2⁻²⁴/10
	terms64        = 13 // (½ln 2)¹⁴/14! = 4e-18 < 2⁻⁵³/10
	log2e          = math.Log2E
	mantissaBits32 = 23
	mantissaBits64 = 52
)

// taylor32 and taylor64 are 1/k!, highest power first.
var (
	taylor32 = [terms32 + 1]float32{1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1, 1}
	taylor64 = [terms64 + 1]float64{1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320,
		1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1, 1}
)

// exp32 returns eᵗ for low32 ≤ t ≤ 0, zero below cut32.
func exp32(t float32) float32 {
	k := fma32(t, log2e, magic32)
	n := k - magic32
	r := fma32(n, -ln2High32, t)
	r = fma32(n, -ln2Low32, r)
	p := taylor32[0]
	for _, q := range taylor32[1:] {
		p = fma32(p, r, q)
	}
	if t < cut32 {
		return 0
	}
	return math.Float32frombits(math.Float32bits(p) + math.Float32bits(k)<<mantissaBits32)
}

// exp64 returns eᵗ for low64 ≤ t ≤ 0, zero below cut64.
func exp64(t float64) float64 {
	k := math.FMA(t, log2e, magic64)
	n := k - magic64
	r := math.FMA(n, -ln2High64, t)
	r = math.FMA(n, -ln2Low64, r)
	p := taylor64[0]
	for _, q := range taylor64[1:] {
		p = math.FMA(p, r, q)
	}
	if t < cut64 {
		return 0
	}
	return math.Float64frombits(math.Float64bits(p) + math.Float64bits(k)<<mantissaBits64)
}
