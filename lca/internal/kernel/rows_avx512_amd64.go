//go:build !purego

package kernel

import "unsafe"

// Slices in, pointers out: the checks that the assembly cannot make, and the ends of slices that are
// not a multiple of sixteen long.

func max32AVX512(s []float32) float32 {
	n := len(s) &^ (lanes - 1)
	m := rowMax(s[n:])
	if n > 0 {
		m = max(m, rowMax32AVX512(&s[0], n))
	}
	return m
}

func find32AVX512(s []float32, v float32) int {
	n := len(s) &^ (lanes - 1)
	if n > 0 {
		if j := findGE32AVX512(&s[0], n, v); j < n {
			return j
		}
	}
	return n + findGE(s[n:], v)
}

func exp32AVX512(s []float32, max float32) (sum, dot float32) {
	if len(s) < lanes {
		return 0, 0
	}
	return expRow32AVX512(&s[0], len(s)&^(lanes-1), max)
}

func expAdded32AVX512(s, before, sums []float32, max, factor float32) (sum, dot float32) {
	n := len(s)
	_, _ = before[n-1], sums[n-1]
	return expAdd32AVX512(&s[0], &before[0], &sums[0], n&^(lanes-1), max, factor)
}

func scale32AVX512(dst, src, s []float32) {
	if len(s) > 0 {
		end := len(s)*32 - 1
		_, _ = dst[end], src[end]
		scaleRows32AVX512(&dst[0], &src[0], &s[0], len(s))
	}
}

func add32AVX512(dst []float64, src []float32) {
	n := len(dst) &^ (lanes - 1)
	src = src[:len(dst)]
	if n > 0 {
		addTo32AVX512(&dst[0], &src[0], n)
	}
	addTo(dst[n:], src[n:])
}

func sub32AVX512(dst []float64, src []float32) {
	n := len(dst) &^ (lanes - 1)
	src = src[:len(dst)]
	if n > 0 {
		subFrom32AVX512(&dst[0], &src[0], n)
	}
	subFrom(dst[n:], src[n:])
}

func max64AVX512(s []float64) float64 {
	n := len(s) &^ (lanes - 1)
	m := rowMax(s[n:])
	if n > 0 {
		m = max(m, rowMax64AVX512(&s[0], n))
	}
	return m
}

func find64AVX512(s []float64, v float64) int {
	n := len(s) &^ (lanes - 1)
	if n > 0 {
		if j := findGE64AVX512(&s[0], n, v); j < n {
			return j
		}
	}
	return n + findGE(s[n:], v)
}

func exp64AVX512(s []float64, max float64) (sum, dot float64) {
	if len(s) < lanes {
		return 0, 0
	}
	return expRow64AVX512(&s[0], len(s)&^(lanes-1), max)
}

func expAdded64AVX512(s, before, sums []float64, max, factor float64) (sum, dot float64) {
	n := len(s)
	_, _ = before[n-1], sums[n-1]
	return expAdd64AVX512(&s[0], &before[0], &sums[0], n&^(lanes-1), max, factor)
}

func scale64AVX512(dst, src, s []float64) {
	if len(s) > 0 {
		end := len(s)*16 - 1
		_, _ = dst[end], src[end]
		scaleRows64AVX512(&dst[0], &src[0], &s[0], len(s))
	}
}

func add64AVX512(dst []float64, src []float64) {
	n := len(dst) &^ (lanes - 1)
	src = src[:len(dst)]
	if n > 0 {
		addTo64AVX512(&dst[0], &src[0], n)
	}
	addTo(dst[n:], src[n:])
}

func sub64AVX512(dst []float64, src []float64) {
	n := len(dst) &^ (lanes - 1)
	src = src[:len(dst)]
	if n > 0 {
		subFrom64AVX512(&dst[0], &src[0], n)
	}
	subFrom(dst[n:], src[n:])
}

func norm32AVX512(dst, panel []float32) {
	_ = dst[32-1]
	norms32AVX512(&dst[0], unsafe.SliceData(panel), len(panel)/32)
}

func norm64AVX512(dst, panel []float64) {
	_ = dst[16-1]
	norms64AVX512(&dst[0], unsafe.SliceData(panel), len(panel)/16)
}

// choose32AVX512 is pick.
func choose32AVX512(index []int32, value, s []float32, first int32, v float32) int {
	if len(s) == 0 {
		return 0
	}
	_, _ = index[len(s)-1], value[len(s)-1]
	return pick32AVX512(&index[0], &value[0], &s[0], len(s)&^(lanes-1), first, v)
}

// sum32AVX512 is gather32. The last slot, the largest, is looked at here, because the assembly looks at none.
func sum32AVX512(dst, panel []float32, index []int32, value []float32) {
	_ = dst[32-1]
	value = value[:len(index)]
	if n := len(index); n > 0 {
		_ = panel[int(index[n-1])*32+32-1]
	}
	gather32AVX512(&dst[0], unsafe.SliceData(panel), unsafe.SliceData(index), unsafe.SliceData(value), len(index))
}

// spread32AVX512 is scatter32, likewise.
func spread32AVX512(sums []float32, index []int32, value []float32, factor float32) {
	value = value[:len(index)]
	if n := len(index); n > 0 {
		_ = sums[index[n-1]]
		scatter32AVX512(&sums[0], &index[0], &value[0], n, factor)
	}
}

func addRow32AVX512(sums, row []float32, factor float32) {
	n := len(row) &^ (lanes - 1)
	sums = sums[:len(row)]
	if n > 0 {
		addScaled32AVX512(&sums[0], &row[0], n, factor)
	}
	addScaled32(sums[n:], row[n:], factor)
}

func finishRow32AVX512(mean, residual, sum, q []float32, factor float32) {
	n := len(mean) &^ (lanes - 1)
	residual, sum, q = residual[:len(mean)], sum[:len(mean)], q[:len(mean)]
	if n > 0 {
		finish32AVX512(&mean[0], &residual[0], &sum[0], &q[0], n, factor)
	}
	finish(mean[n:], residual[n:], sum[n:], q[n:], factor)
}

func bound32AVX512(s []float32) {
	n := len(s) &^ (lanes - 1)
	if n > 0 {
		clamp32AVX512(&s[0], n)
	}
	clamp(s[n:])
}

// choose64AVX512 is pick.
func choose64AVX512(index []int32, value, s []float64, first int32, v float64) int {
	if len(s) == 0 {
		return 0
	}
	_, _ = index[len(s)-1], value[len(s)-1]
	return pick64AVX512(&index[0], &value[0], &s[0], len(s)&^(lanes-1), first, v)
}

// sum64AVX512 is gather64. The last slot, the largest, is looked at here, because the assembly looks at none.
func sum64AVX512(dst, panel []float64, index []int32, value []float64) {
	_ = dst[16-1]
	value = value[:len(index)]
	if n := len(index); n > 0 {
		_ = panel[int(index[n-1])*16+16-1]
	}
	gather64AVX512(&dst[0], unsafe.SliceData(panel), unsafe.SliceData(index), unsafe.SliceData(value), len(index))
}

// spread64AVX512 is scatter64, likewise.
func spread64AVX512(sums []float64, index []int32, value []float64, factor float64) {
	value = value[:len(index)]
	if n := len(index); n > 0 {
		_ = sums[index[n-1]]
		scatter64AVX512(&sums[0], &index[0], &value[0], n, factor)
	}
}

func addRow64AVX512(sums, row []float64, factor float64) {
	n := len(row) &^ (lanes - 1)
	sums = sums[:len(row)]
	if n > 0 {
		addScaled64AVX512(&sums[0], &row[0], n, factor)
	}
	addScaled64(sums[n:], row[n:], factor)
}

func finishRow64AVX512(mean, residual, sum, q []float64, factor float64) {
	n := len(mean) &^ (lanes - 1)
	residual, sum, q = residual[:len(mean)], sum[:len(mean)], q[:len(mean)]
	if n > 0 {
		finish64AVX512(&mean[0], &residual[0], &sum[0], &q[0], n, factor)
	}
	finish(mean[n:], residual[n:], sum[n:], q[n:], factor)
}

func bound64AVX512(s []float64) {
	n := len(s) &^ (lanes - 1)
	if n > 0 {
		clamp64AVX512(&s[0], n)
	}
	clamp(s[n:])
}

func turnRowsAVX512(strip []float64, ld int, c, s []float64) {
	if n := len(c); n > 0 {
		_, _ = strip[n*ld+RotateWidth-1], s[n-1]
		rotate64AVX512(&strip[0], ld, &c[0], &s[0], n)
	}
}

func bothWaysAVX512(p, a []float64, ld int, v []float64, n int) {
	if n%8 == 0 && n > 0 {
		_, _, _ = p[n-1], a[7*ld+n-1], v[n-1]
		symmetric64AVX512(&p[0], &a[0], ld, &v[0], n)
		return
	}
	symmetric(p, a, ld, v, n)
}

func shiftRoundAVX512(dst []float32, x, mean []float64) {
	n := len(dst) &^ (lanes - 1)
	x, mean = x[:len(dst)], mean[:len(dst)]
	if n > 0 {
		centerRound64AVX512(&dst[0], &x[0], &mean[0], n)
	}
	shiftRound(dst[n:], x[n:], mean[n:])
}

func fartherAVX512(dst, x, o []float64, s float64) {
	n := len(dst) &^ (lanes - 1)
	x, o = x[:len(dst)], o[:len(dst)]
	if n > 0 {
		scaled64AVX512(&dst[0], &x[0], &o[0], s, n)
	}
	scaled(dst[n:], x[n:], o[n:], s)
}

func addOffsetAVX512(sum, x, o []float64) {
	n := len(sum) &^ (lanes - 1)
	x, o = x[:len(sum)], o[:len(sum)]
	if n > 0 {
		addFrom64AVX512(&sum[0], &x[0], &o[0], n)
	}
	addFrom(sum[n:], x[n:], o[n:])
}

func greatestAVX512(x []float64) uint64 {
	n := len(x) &^ (lanes - 1)
	m := largest(x[n:])
	if n > 0 {
		m = max(m, largest64AVX512(&x[0], n))
	}
	return m
}
