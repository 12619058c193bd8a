package kernel

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Points are in the order of a coordinate, whatever its values are, and those of one value in that of their numbers.
func TestDividerSorts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		n := 1 + r.IntN(300)
		d := divider{dim: 1, z: make([]float64, n)}
		for i := range d.z {
			switch r.IntN(8) {
			case 0:
				d.z[i] = []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1}[r.IntN(6)]
			case 1:
				d.z[i] = 1 + float64(r.IntN(9))*0x1p-52 // the same except in the last digits
			default:
				d.z[i] = r.NormFloat64()
			}
		}
		got := r.Perm(n)
		want := slices.Sorted(slices.Values(got))
		slices.SortStableFunc(want, func(a, b int) int { return cmp.Compare(d.z[a], d.z[b]) })
		if d.sort(got, 0); !slices.Equal(got, want) {
			t.Fatalf("%v in the order %v, want %v", d.z, got, want)
		}
	}
}
