package kernel

import "math"

// packPoints copies the first parzen coordinates into panels of points, the last padded with zeros.
func packPoints[T Float](f *functions[T], dst, z []T, n, dim, parzen int) {
	w := panelWidth[T]()
	for j := 0; j < n; j += w {
		panel := dst[j*parzen:][:w*parzen]
		points := min(w, n-j)
		if points < w {
			clear(panel)
		}
		f.transpose(panel, z[j*dim:], dim, points, parzen)
	}
}

// transpose writes the rows × cols matrix src, whose rows are lds apart, into the first rows columns of a panel.
func transpose[T Float](panel, src []T, lds, rows, cols int) {
	w := panelWidth[T]()
	for r := range rows {
		for c, v := range src[r*lds:][:cols] {
			panel[c*w+r] = v
		}
	}
}

// norms writes −½ Σ_k x_k² for each column x of a panel: a float64 chain of multiply-adds, k ascending, rounded to T
// at the end.
func norms[T Float](dst, panel []T) {
	w := panelWidth[T]()
	for c := range dst[:w] {
		var s float64
		for k := c; k < len(panel); k += w {
			s = math.FMA(float64(panel[k]), float64(panel[k]), s)
		}
		dst[c] = T(-0.5 * s)
	}
}
