//go:build !purego

package kernel

// turn32 is transpose by blocks of 8×8; what is left over at the right and below goes one by one.
func turn32(panel, src []float32, lds, rows, cols int) {
	const n = 8
	full := cols / n
	r := 0
	for ; full > 0 && r+n <= rows; r += n {
		_, _ = src[(r+n-1)*lds+full*n-1], panel[(full*n-1)*32+r+n-1]
		transpose32AVX2(&panel[r], &src[r*lds], lds, full)
		if rest := full * n; rest < cols {
			transpose(panel[rest*32+r:], src[r*lds+rest:], lds, n, cols-rest)
		}
	}
	if r < rows {
		transpose(panel[r:], src[r*lds:], lds, rows-r, cols)
	}
}

// turn64 is transpose by blocks of 4×4; what is left over at the right and below goes one by one.
func turn64(panel, src []float64, lds, rows, cols int) {
	const n = 4
	full := cols / n
	r := 0
	for ; full > 0 && r+n <= rows; r += n {
		_, _ = src[(r+n-1)*lds+full*n-1], panel[(full*n-1)*16+r+n-1]
		transpose64AVX2(&panel[r], &src[r*lds], lds, full)
		if rest := full * n; rest < cols {
			transpose(panel[rest*16+r:], src[r*lds+rest:], lds, n, cols-rest)
		}
	}
	if r < rows {
		transpose(panel[r:], src[r*lds:], lds, rows-r, cols)
	}
}
