package kernel

import "testing"

// BenchmarkScatter reports processor time per call over 2048 rows of 64 columns.
func BenchmarkScatter(b *testing.B) {
	b.Run("float32", benchmarkScatter[float32])
	b.Run("float64", benchmarkScatter[float64])
}

func benchmarkScatter[T Float](b *testing.B) {
	const rows, dim = 2048, 64
	x, c := make([]T, rows*dim), make([]T, dim)
	for i := range x {
		x[i] = T(i%17) - 8
	}
	sum, upper := make([]float64, dim), make([]float64, dim*dim)
	var s Scratch[T]
	measure(b, rows*dim*(dim+1), func() {
		ColumnSums(sum, &s, x, rows)
		Scatter(sum, upper, &s, x, rows, c)
	})
}
