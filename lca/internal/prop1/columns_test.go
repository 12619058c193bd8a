package prop1

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The selection finds what sorting does: few values and many, in order and not, infinite ones.
func TestMedian(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 300; n++ {
		x := make([]float64, n)
		for _, draw := range []func(i int) float64{
			func(int) float64 { return r.NormFloat64() },
			func(int) float64 { return float64(r.IntN(3)) },
			func(i int) float64 { return float64(i) },
			func(i int) float64 { return float64(-i) },
			func(i int) float64 { return float64(i % 7 * (n - i)) },
			func(int) float64 { return math.Inf(1 - 2*r.IntN(2)) },
		} {
			for i := range x {
				x[i] = draw(i)
			}
			got := median(make([]float64, n), x)
			if want := slices.Sorted(slices.Values(x))[n/2]; got != want {
				t.Fatalf("of %v: %v, want %v", x, got, want)
			}
		}
	}
}
