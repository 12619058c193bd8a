//go:build !purego

package kernel

import "unsafe"

// height is a tile of the assembly: a fixed number of rows, any number of tiles below each other.
type height[T Float] struct {
	rows int
	tile func(c *T, ldc int, start *T, lds int, a *T, rs, cs int, b *T, bs, depth, tiles int, next *float64, step int)
}

// The heights of each set, tallest first; what they leave over is done by the next.
var (
	tall32AVX512 = []height[float32]{{14, tile32x14AVX512}, {8, tile32x8AVX512}, {4, tile32x4AVX512}, {2, tile32x2AVX512}, {1, tile32x1AVX512}}
	half32AVX512 = []height[float32]{{28, tile32x28AVX512Half}, {16, tile32x16AVX512Half}, {8, tile32x8AVX512Half}, {4, tile32x4AVX512Half}, {2, tile32x2AVX512Half}, {1, tile32x1AVX512Half}}
	half32AVX2   = []height[float32]{{6, tile32x6AVX2}, {4, tile32x4AVX2}, {2, tile32x2AVX2}, {1, tile32x1AVX2}}
	tall64AVX512 = []height[float64]{{14, tile64x14AVX512}, {8, tile64x8AVX512}, {4, tile64x4AVX512}, {2, tile64x2AVX512}, {1, tile64x1AVX512}}
	half64AVX512 = []height[float64]{{28, tile64x28AVX512Half}, {16, tile64x16AVX512Half}, {8, tile64x8AVX512Half}, {4, tile64x4AVX512Half}, {2, tile64x2AVX512Half}, {1, tile64x1AVX512Half}}
	half64AVX2   = []height[float64]{{6, tile64x6AVX2}, {4, tile64x4AVX2}, {2, tile64x2AVX2}, {1, tile64x1AVX2}}
)

func tile32AVX512(c []float32, ldc int, init []float32, ldi int, a []float32, rs, cs int, b []float32, bs, depth, rows, cols int) {
	if cols <= panelBytes/4/2 {
		tileBy(half32AVX512, c, ldc, init, ldi, a, rs, cs, b, bs, depth, rows, panelBytes/4/2, nil)
	} else {
		tileBy(tall32AVX512, c, ldc, init, ldi, a, rs, cs, b, bs, depth, rows, panelBytes/4, nil)
	}
}

func tile64AVX512(c []float64, ldc int, init []float64, ldi int, a []float64, rs, cs int, b []float64, bs, depth, rows, cols int) {
	if cols <= panelBytes/8/2 {
		tileBy(half64AVX512, c, ldc, init, ldi, a, rs, cs, b, bs, depth, rows, panelBytes/8/2, nil)
	} else {
		tileBy(tall64AVX512, c, ldc, init, ldi, a, rs, cs, b, bs, depth, rows, panelBytes/8, nil)
	}
}

func tile32AVX2(c []float32, ldc int, init []float32, ldi int, a []float32, rs, cs int, b []float32, bs, depth, rows, cols int) {
	const half = panelBytes / 4 / 2
	for j := 0; j < cols && rows > 0; j += half {
		tileBy(half32AVX2, c[j:], ldc, init[j:], ldi, a, rs, cs, b[min(j, len(b)):], bs, depth, rows, half, nil)
	}
}

func tile64AVX2(c []float64, ldc int, init []float64, ldi int, a []float64, rs, cs int, b []float64, bs, depth, rows, cols int) {
	const half = panelBytes / 8 / 2
	for j := 0; j < cols && rows > 0; j += half {
		tileBy(half64AVX2, c[j:], ldc, init[j:], ldi, a, rs, cs, b[min(j, len(b)):], bs, depth, rows, half, nil)
	}
}

// asking32AVX512 is asking32. Each step of the tallest tile asks for a line.
func asking32AVX512(c []float32, ldc int, init, a []float32, rs int, b []float32, depth, rows int, next []byte) (asked int) {
	const w = panelBytes / 4
	tileBy(tall32AVX512, c, ldc, init, 0, a, rs, 1, b, w, depth, rows, w, next)
	return rows / tall32AVX512[0].rows * depth * cacheLine
}

func asking32AVX2(c []float32, ldc int, init, a []float32, rs int, b []float32, depth, rows int, _ []byte) (asked int) {
	const w = panelBytes / 4
	tile32AVX2(c, ldc, init, 0, a, rs, 1, b, w, depth, rows, w)
	return 0
}

// tileBy covers rows with the heights of a set, and asks for next. The last element that each slice must have
// is looked at first, because the assembly looks at none.
func tileBy[T Float](set []height[T], c []T, ldc int, init []T, ldi int, a []T, rs, cs int, b []T, bs, depth, rows, width int, next []byte) {
	if rows == 0 {
		return
	}
	_, _ = c[(rows-1)*ldc+width-1], init[(rows-1)*ldi+width-1]
	if depth > 0 {
		_, _ = a[(rows-1)*rs+(depth-1)*cs], b[(depth-1)*bs+width-1]
	}
	size := sizeOf[T]()
	pc, pi := unsafe.Pointer(&c[0]), unsafe.Pointer(&init[0])
	pa, pb := unsafe.Pointer(unsafe.SliceData(a)), unsafe.SliceData(b)
	ask, step := (*float64)(pi), 0 // a line that is in the cache
	if len(next) > 0 {
		ask, step = (*float64)(unsafe.Pointer(&next[0])), cacheLine
	}
	for _, h := range set {
		n := rows / h.rows
		if n == 0 {
			continue
		}
		h.tile((*T)(pc), ldc, (*T)(pi), ldi, (*T)(pa), rs, cs, pb, bs, depth, n, ask, step)
		rows -= n * h.rows
		if rows == 0 {
			return
		}
		done := n * h.rows * size
		pc, pi = unsafe.Add(pc, done*ldc), unsafe.Add(pi, done*ldi)
		if depth > 0 {
			pa = unsafe.Add(pa, done*rs)
		}
	}
}
