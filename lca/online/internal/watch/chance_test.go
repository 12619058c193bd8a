package watch

import (
	"math"
	"testing"
)

// TestChance compares the bound with the exact one of a coin, and holds that what cannot be is impossible.
func TestChance(t *testing.T) {
	coin := make([]float64, 10)
	coin[3] = 1
	for _, mean := range []float64{0.2, 0.5, 0.9} {
		const rows = 50
		want := -rows * (mean*math.Log(mean/0.1) + (1-mean)*math.Log((1-mean)/0.9))
		if got := Chance(append(coin, math.NaN()), mean, rows); math.Abs(got-want) > 1e-5*math.Abs(want) {
			t.Errorf("a mean of %v: %v, want %v", mean, got, want)
		}
	}
	for _, c := range []struct{ mean, want float64 }{
		{0.05, 0},
		{1, 7 * math.Log(0.1)},
		{1 + 1e-15, 7 * math.Log(0.1)},
		{1.5, math.Inf(-1)},
		{math.NaN(), 0},
	} {
		if got := Chance(coin, c.mean, 7); !(math.Abs(got-c.want) < 1e-3) && got != c.want {
			t.Errorf("a mean of %v: %v, want %v", c.mean, got, c.want)
		}
	}
}
