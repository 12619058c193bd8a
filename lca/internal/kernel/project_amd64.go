//go:build !purego

package kernel

import "unsafe"

// roundedHeight is a rounded tile of the assembly, likewise any number of them below each other.
type roundedHeight struct {
	rows int
	tile func(c *float32, ldc int, a *float64, rs int, b *float64, depth, tiles int, next *byte, step int)
}

// The heights of each set, tallest first.
var (
	roundedHeightsAVX512 = []roundedHeight{{14, rounded64x14AVX512}, {8, rounded64x8AVX512}, {4, rounded64x4AVX512}, {2, rounded64x2AVX512}, {1, rounded64x1AVX512}}
	roundedHeightsAVX2   = []roundedHeight{{6, rounded64x6AVX2}, {4, rounded64x4AVX2}, {2, rounded64x2AVX2}, {1, rounded64x1AVX2}}
)

func roundedAVX512(c []float32, ldc int, a []float64, rs int, b []float64, depth, rows int, next []byte) (asked int) {
	return roundedBy(roundedHeightsAVX512, c, ldc, a, rs, b, depth, rows, TileWidth, next)
}

func roundedAVX2(c []float32, ldc int, a []float64, rs int, b []float64, depth, rows int, next []byte) (asked int) {
	const half = TileWidth / 2
	asked = roundedBy(roundedHeightsAVX2, c, ldc, a, rs, b, depth, rows, half, next)
	next = next[min(asked, len(next)):]
	return asked + roundedBy(roundedHeightsAVX2, c[min(half, len(c)):], ldc, a, rs, b[min(half, len(b)):], depth, rows, half, next)
}

// roundedBy covers rows with the heights of a set. The last element that each slice must have is looked at
// first, because the assembly looks at none. A step asks for a line, as long as there is one to ask for.
func roundedBy(set []roundedHeight, c []float32, ldc int, a []float64, rs int, b []float64, depth, rows, width int, next []byte) (asked int) {
	for _, h := range set {
		n := rows / h.rows
		if n == 0 {
			continue
		}
		done := n * h.rows
		_ = c[(done-1)*ldc+width-1]
		var pa, pb *float64
		var ask *byte
		step := 0
		if depth > 0 {
			_, _ = a[(done-1)*rs+depth-1], b[(depth-1)*TileWidth+width-1]
			pa, pb = &a[0], &b[0]
			ask = (*byte)(unsafe.Pointer(pb)) // which is in the cache
		}
		if asked < len(next) {
			ask, step = &next[asked], cacheLine
			asked += n * depth * cacheLine
		}
		h.tile(&c[0], ldc, pa, rs, pb, depth, n, ask, step)
		if rows -= done; rows == 0 {
			break
		}
		c = c[done*ldc:]
		if depth > 0 {
			a = a[done*rs:]
		}
	}
	return asked
}

func shiftAVX512(dst []float64, ld int, x, mean []float64, rows int) {
	shiftBy(shift64AVX512, dst, ld, x, mean, rows)
}

func shiftAVX2(dst []float64, ld int, x, mean []float64, rows int) {
	shiftBy(shift64AVX2, dst, ld, x, mean, rows)
}

func widenAVX512(dst []float64, ld int, x []float32, mean []float64, rows int) {
	shiftBy(widen64AVX512, dst, ld, x, mean, rows)
}

func widenAVX2(dst []float64, ld int, x []float32, mean []float64, rows int) {
	shiftBy(widen64AVX2, dst, ld, x, mean, rows)
}

// shiftBy leaves whole sixteens of columns to the assembly.
func shiftBy[X Float](f func(dst *float64, ld int, x *X, mean *float64, dim, n, rows int), dst []float64, ld int, x []X, mean []float64, rows int) {
	dim := len(mean)
	n := dim &^ (lanes - 1)
	if n > 0 && rows > 0 {
		_, _ = dst[(rows-1)*ld+n-1], x[(rows-1)*dim+n-1]
		f(&dst[0], ld, &x[0], &mean[0], dim, n, rows)
	}
	if n < dim {
		shiftFrom(n, dst, ld, x, mean, rows)
	}
}

func finiteAVX2(v []float32) bool {
	n := len(v) &^ 63
	return (n == 0 || finite32AVX2(&v[0], n) == 0) && finite(v[n:])
}
