package watch

import "math"

// MeanAtMost returns the mean of the values, none of which counts as more than most, and the greatest of them. NaNs do not count.
func MeanAtMost(values []float64, most float64) (mean, greatest float64) {
	n := 0.0
	greatest = math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
			mean += float64((min(v, most) - mean) / n)
			greatest = max(greatest, v)
		}
	}
	return mean, greatest
}

// Chance returns a bound of the logarithm of the probability that the mean of that number of independent draws from values
// is at least mean (Chernoff):
//
//	ln P ≤ rows · min_θ ln (1/n) Σ_i exp θ(v_i − mean)
//
// It needs no law of the values. NaNs do not count.
func Chance(values []float64, mean, rows float64) float64 {
	mean -= 1e-9 * math.Abs(mean) // that of equal values is rounded, and may be beyond all of them
	differences, sum, upper := make([]float64, 0, len(values)), 0.0, math.Inf(-1)
	for _, v := range values {
		if d := v - mean; !math.IsNaN(d) {
			differences, sum, upper = append(differences, d), sum+d, max(upper, d)
		}
	}
	switch {
	case !(sum < 0):
		return 0
	case upper < 0:
		return math.Inf(-1)
	}
	const steps = 30
	lo, hi := 0.0, 1/max(upper, -sum/float64(len(differences)))
	for range steps {
		if _, slope := tilted(differences, upper, hi); slope >= 0 {
			break
		}
		lo, hi = hi, 2*hi
	}
	for range steps {
		middle := 0.5 * (lo + hi)
		if _, slope := tilted(differences, upper, middle); slope < 0 {
			lo = middle
		} else {
			hi = middle
		}
	}
	logarithm, _ := tilted(differences, upper, hi)
	return rows * min(logarithm, 0)
}

// tilted returns ln (1/n) Σ_i exp θ v_i, a convex function of θ, and a number with the sign of its slope. No value is above upper.
func tilted(values []float64, upper, theta float64) (logarithm, slope float64) {
	sum := 0.0
	for _, v := range values {
		e := math.Exp(theta * (v - upper))
		sum += e
		slope += float64(v * e)
	}
	return math.Log(sum/float64(len(values))) + float64(theta*upper), slope
}
