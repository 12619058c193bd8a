package clustering

import (
	"math"
	"testing"
)

func TestAdjustedRand(t *testing.T) {
	tests := []struct {
		name string
		a, b []int
		want float64
	}{
		{"names do not matter", []int{0, 0, 1, 1}, []int{5, 5, 2, 2}, 1},
		{"by hand: one pair in both, 2·3/6 expected", []int{0, 0, 1, 1}, []int{0, 0, 0, 1}, 0},
		{"scikit-learn's documented example", []int{0, 0, 1, 2}, []int{0, 0, 1, 1}, 0.5714285714285714},
		{"opposite splits are worse than chance", []int{0, 0, 1, 1}, []int{0, 1, 0, 1}, -0.5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := AdjustedRand(tt.a, tt.b); math.Abs(got-tt.want) > 1e-12 {
				t.Errorf("AdjustedRand = %v, want %v", got, tt.want)
			}
		})
	}
}
