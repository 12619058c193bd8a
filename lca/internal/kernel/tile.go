package kernel

import "math"

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
