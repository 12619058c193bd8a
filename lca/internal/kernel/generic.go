package kernel

import (
	"math"
)

// rowMax returns the largest element of s, or −Inf if there is none. It ignores NaN, because a comparison with it is
// false, here as in the MAXPS instruction.
func rowMax[T Float](s []T) T {
	m := T(math.Inf(-1))
	for _, x := range s {
		if x > m {
			m = x
		}
	}
	return m
}

// findGE returns the index of the first element of s that is at least v, or len(s) if there is none.
func findGE[T Float](s []T, v T) int {
	for j, x := range s {
		if x >= v {
			return j
		}
	}
	return len(s)
}

// expRow32 and expRow64 replace each logit s_j by its weight w_j = exp(s_j − max) and return Σ w_j
// and Σ w_j·(s_j − max), from which the entropy of the row follows. len(s) is a multiple of lanes. Element j is added
// to lane j mod 16, j ascending, to the second sum by fused multiply-adds; then the lanes are folded 8, 4, 2, 1.
// A logit of −Inf or NaN has weight zero.
func expRow32(s []float32, max float32) (sum, dot float32) {
	var z, d [lanes]float32
	for ; len(s) >= lanes; s = s[lanes:] {
		for l := range lanes {
			t := s[l] - max
			if !(t > low32) {
				t = low32
			}
			w := exp32(t)
			s[l] = w
			z[l] += w
			d[l] = fma32(w, t, d[l])
		}
	}
	return foldLanes(&z), foldLanes(&d)
}

func expRow64(s []float64, max float64) (sum, dot float64) {
	var z, d [lanes]float64
	for ; len(s) >= lanes; s = s[lanes:] {
		for l := range lanes {
			t := s[l] - max
			if !(t > low64) {
				t = low64
			}
			w := exp64(t)
			s[l] = w
			z[l] += w
			d[l] = math.FMA(w, t, d[l])
		}
	}
	return foldLanes(&z), foldLanes(&d)
}

// expAdd32 and expAdd64 are expRow of s, and axpy of the row before, which has the same length.
func expAdd32(s, before, sums []float32, max, factor float32) (sum, dot float32) {
	axpy32(sums, before, factor)
	return expRow32(s, max)
}

func expAdd64(s, before, sums []float64, max, factor float64) (sum, dot float64) {
	axpy64(sums, before, factor)
	return expRow64(s, max)
}

// foldLanes adds up the lanes: first those eight apart, then four, two and one.
func foldLanes[T Float](v *[lanes]T) T {
	for h := lanes / 2; h > 0; h /= 2 {
		for l := range h {
			v[l] += v[l+h]
		}
	}
	return v[0]
}

// scale multiplies row k of the panel src by s[k]: dst[k·w + c] = s[k]·src[k·w + c].
func scale[T Float](dst, src, s []T) {
	w := panelWidth[T]()
	for k, v := range s {
		from, to := src[k*w:][:w], dst[k*w:][:w]
		for c, x := range from {
			to[c] = T(v * x)
		}
	}
}

// addTo adds src to the float64 sums in dst, and subFrom subtracts it.
func addTo[T Float](dst []float64, src []T) {
	for i, v := range src[:len(dst)] {
		dst[i] += float64(v)
	}
}

func subFrom[T Float](dst []float64, src []T) {
	for i, v := range src[:len(dst)] {
		dst[i] -= float64(v)
	}
}

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

// SubScale writes s·(x − o).
func SubScale(dst, x, o []float64, s float64) { active().subScale(dst, x, o, s) }

// AddDiff adds x − o to sum.
func AddDiff(sum, x, o []float64) { active().addDiff(sum, x, o) }

// AddSquares adds (x − o)² to sum. Like all here it multiplies and adds in two roundings.
func AddSquares(sum, x, o []float64) { active().addSquares(sum, x, o) }

// Fade is dst ← keep·dst + s·x.
func Fade(dst, x []float64, keep, s float64) { active().fade(dst, x, keep, s) }

func subScale(dst, x, o []float64, s float64) {
	x, o = x[:len(dst)], o[:len(dst)]
	for k, v := range x {
		dst[k] = s * (v - o[k])
	}
}

func addDiff(sum, x, o []float64) {
	x, o = x[:len(sum)], o[:len(sum)]
	for k, v := range x {
		sum[k] += v - o[k]
	}
}

func addSquares(sum, x, o []float64) {
	x, o = x[:len(sum)], o[:len(sum)]
	for k, v := range x {
		v -= o[k]
		sum[k] += float64(v * v)
	}
}

func fade(dst, x []float64, keep, s float64) {
	x = x[:len(dst)]
	for k, v := range dst {
		dst[k] = float64(keep*v) + float64(x[k]*s)
	}
}

// The tile is the one matrix product of this package. For r < rows and c < cols ≤ panel width,
//
//	C[r·ldc + c] = init[r·ldi + c] + Σ_k A[r·rs + k·cs] · B[k·bs + c]      k = 0 … depth−1
//
// as one chain of fused multiply-adds, k ascending, that starts from init. With init = C the chain continues where it
// stopped; with ldi = 0 all rows start from the same vector, which is how the bias enters. Columns come in halves of
// a panel: a half with any column below cols is computed completely, the other is not written.
//
// Operations that multiply and add are written once for each type, because Go has no float32 fused multiply-add.

func tile32(c []float32, ldc int, init []float32, ldi int, a []float32, rs, cs int, b []float32, bs, depth, rows, cols int) {
	if rows == 0 {
		return
	}
	for r := range rows {
		for j := 0; j < ceil(cols, 16); j += 4 {
			in := init[r*ldi+j:][:4]
			c0, c1, c2, c3 := in[0], in[1], in[2], in[3]
			for k := range depth {
				x, y := a[r*rs+k*cs], b[k*bs+j:][:4]
				c0, c1, c2, c3 = fma32(x, y[0], c0), fma32(x, y[1], c1), fma32(x, y[2], c2), fma32(x, y[3], c3)
			}
			out := c[r*ldc+j:][:4]
			out[0], out[1], out[2], out[3] = c0, c1, c2, c3
		}
	}
}

func tile64(c []float64, ldc int, init []float64, ldi int, a []float64, rs, cs int, b []float64, bs, depth, rows, cols int) {
	for r := range rows {
		for j := 0; j < ceil(cols, 8); j += 8 {
			in := init[r*ldi+j:][:8]
			c0, c1, c2, c3, c4, c5, c6, c7 := in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7]
			for k := range depth {
				x, y := a[r*rs+k*cs], b[k*bs+j:][:8]
				c0, c1, c2, c3 = math.FMA(x, y[0], c0), math.FMA(x, y[1], c1), math.FMA(x, y[2], c2), math.FMA(x, y[3], c3)
				c4, c5, c6, c7 = math.FMA(x, y[4], c4), math.FMA(x, y[5], c5), math.FMA(x, y[6], c6), math.FMA(x, y[7], c7)
			}
			out := c[r*ldc+j:][:8]
			out[0], out[1], out[2], out[3] = c0, c1, c2, c3
			out[4], out[5], out[6], out[7] = c4, c5, c6, c7
		}
	}
}

// tilePrefetch is tile32 for a full panel whose rows all start from init. An implementation may prefetch next while
// it computes; it returns the bytes prefetched.
func tilePrefetch(c []float32, ldc int, init, a []float32, rs int, b []float32, depth, rows int, _ []byte) (prefetched int) {
	const w = panelBytes / 4
	tile32(c, ldc, init, 0, a, rs, 1, b, w, depth, rows, w)
	return 0
}

// Finite reports whether no number is NaN or infinite. Only those are not zero when multiplied by zero.
func Finite(v []float32) bool { return active().finite(v) }

func finite(v []float32) bool {
	sum := float32(0)
	for _, x := range v {
		sum += float32(x * 0)
	}
	return sum == 0
}

// MaxAbs returns the bits of the largest magnitude in x, without the sign, or 0 if x is empty. As integers such bits
// are ordered by magnitude: infinity is above all finite numbers, and NaN above infinity.
func MaxAbs(x []float64) uint64 { return active().maxAbs(x) }

func maxAbs(x []float64) (m uint64) {
	for _, v := range x {
		m = max(m, math.Float64bits(v)&^(1<<63))
	}
	return m
}
