package tail

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTailQuantile holds what share of fresh values the estimated (1 − 5·10⁻⁴) quantile of 500 leaves above it: few
// where the values go on as they began, however heavy their tail, and nearly all outliers.
func TestTailQuantile(t *testing.T) {
	exponential := func(r *rand.Rand) float64 { return r.ExpFloat64() }
	for _, c := range []struct {
		name     string
		draw     func(r *rand.Rand) float64
		outliers float64 // share of values around 100
		rows     float64 // independent ones
		most     float64 // share of the others above
	}{
		{"exponential", exponential, 0, 500, 2e-3},
		{"chi-squared, as squared distances are", func(r *rand.Rand) float64 {
			sum := 0.0
			for range 10 {
				z := r.NormFloat64()
				sum += 0.5 * z * z
			}
			return sum
		}, 0, 500, 2e-3},
		{"heavy: Pareto with index 0.75", func(r *rand.Rand) float64 { return math.Pow(1-r.Float64(), -1/0.75) }, 0, 500, 1e-2},
		{"outliers", exponential, 0.05, 500, 2e-3},
		{"few independent values", exponential, 0, 10, 1e-4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var above, outliers, caught float64
			const runs, fresh = 40, 5000
			for seed := range uint64(runs) {
				r := rand.New(rand.NewPCG(seed, 16))
				draw := func() (v float64, outlier bool) {
					if r.Float64() < c.outliers {
						return 100 + 10*r.NormFloat64(), true
					}
					return c.draw(r), false
				}
				scores := make([]float64, 500)
				for i := range scores {
					scores[i], _ = draw()
				}
				limit := Quantile(scores, 5e-4, c.rows)
				for range fresh {
					switch v, outlier := draw(); {
					case outlier:
						outliers++
						if v > limit {
							caught++
						}
					case v > limit:
						above += 1.0 / (runs * fresh)
					}
				}
			}
			if above > c.most {
				t.Errorf("%.5f of the values are above, want at most %v", above, c.most)
			}
			if caught < 0.95*outliers { // in a few of the runs the tail looks heavy
				t.Errorf("%v of %v outliers are above", caught, outliers)
			}
		})
	}
	if v := Quantile([]float64{3, 1, 2}, 5e-4, 3); !math.IsInf(v, 1) {
		t.Errorf("three scores have a quantile of %v, want +Inf", v)
	}
	if v := Quantile(make([]float64, 100), 5e-4, 100); !math.IsInf(v, 1) {
		t.Errorf("equal scores have a quantile of %v, want +Inf", v)
	}
}
