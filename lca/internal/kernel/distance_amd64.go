//go:build !purego

package kernel

// apart32 and apart64 are distance, four rows at a time.
func apart32(dst []float64, x []float32, ld int, o []float64) {
	var sums [4][4]float64
	i, n := 0, len(o)&^3
	for ; n > 0 && i+4 <= len(dst); i += 4 {
		_ = x[(i+3)*ld+n-1]
		distance32AVX2(&sums[0][0], &x[i*ld], ld, &o[0], n)
		for r := range sums {
			dst[i+r] = restOfDistance(&sums[r], x[(i+r)*ld+n:], o[n:])
		}
	}
	distance(dst[i:], x[min(i*ld, len(x)):], ld, o)
}

func apart64(dst []float64, x []float64, ld int, o []float64) {
	var sums [4][4]float64
	i, n := 0, len(o)&^3
	for ; n > 0 && i+4 <= len(dst); i += 4 {
		_ = x[(i+3)*ld+n-1]
		distance64AVX2(&sums[0][0], &x[i*ld], ld, &o[0], n)
		for r := range sums {
			dst[i+r] = restOfDistance(&sums[r], x[(i+r)*ld+n:], o[n:])
		}
	}
	distance(dst[i:], x[min(i*ld, len(x)):], ld, o)
}

// pair32 and pair64 are between.
func pair32(x, z []float32) float64 {
	var sums [4]float64
	n := len(x) &^ 3
	z = z[:len(x)]
	if n > 0 {
		between32AVX2(&sums[0], &x[0], &z[0], n)
	}
	return restOfDistance(&sums, z[n:], x[n:])
}

func pair64(x, z []float64) float64 {
	var sums [4]float64
	n := len(x) &^ 3
	z = z[:len(x)]
	if n > 0 {
		between64AVX2(&sums[0], &x[0], &z[0], n)
	}
	return restOfDistance(&sums, z[n:], x[n:])
}
