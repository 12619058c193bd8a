package kernel

import (
	"fmt"
	"math"
)

// SquaredDistances sets dst[i] to |x_i − o|² for rows x_i of len(o) numbers, which begin ld apart.
func SquaredDistances[T Float](dst []float64, x []T, ld int, o []float64) {
	if n := len(dst); n > 0 && len(x) < (n-1)*ld+len(o) {
		panic(fmt.Sprintf("kernel: distances of %d rows of %d, %d apart, from %d numbers", n, len(o), ld, len(x)))
	}
	functionsOf[T]().distance(dst, x, ld, o)
}

// distance is the loop of [SquaredDistances]. It sums column k in partial sum k mod 4.
func distance[T Float](dst []float64, x []T, ld int, o []float64) {
	for i := range dst {
		var s [4]float64
		dst[i] = sqDistTail(&s, x[i*ld:], o)
	}
}

// sqDistTail adds the remaining squared differences to the four partial sums and returns their total.
func sqDistTail[T, O Float](s *[4]float64, x []T, o []O) float64 {
	x = x[:len(o)]
	for ; len(x) >= 4; x, o = x[4:], o[4:] {
		a, b := float64(x[0])-float64(o[0]), float64(x[1])-float64(o[1])
		c, d := float64(x[2])-float64(o[2]), float64(x[3])-float64(o[3])
		s[0], s[1], s[2], s[3] = math.FMA(a, a, s[0]), math.FMA(b, b, s[1]), math.FMA(c, c, s[2]), math.FMA(d, d, s[3])
	}
	for k, v := range x {
		e := float64(v) - float64(o[k])
		s[k] = math.FMA(e, e, s[k])
	}
	return (s[0] + s[2]) + (s[1] + s[3])
}

// sqDist returns |x − z|² over the length of x, by the same four partial sums.
func sqDist[T Float](x, z []T) float64 {
	var s [4]float64
	return sqDistTail(&s, z, x)
}
