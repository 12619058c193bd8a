// Package tail tells from some scores which one is beyond all that they lead one to expect.
package tail

import (
	"math"
	"slices"
)

const (
	// The tail is fitted to three quantiles: these, and the one whose share above is their geometric mean. What is above the second counts by number alone.
	tailFrom = 0.70
	tailTo   = 0.90
	// The shape is expected near 0, give or take tailSpread, and at most mostShape. What the quantiles say of it has a variance of tailNoise over
	// the number of scores between them (measured, of exponential scores): few say little.
	tailSpread = 0.3
	tailNoise  = 14
	mostShape  = 1.5
	tailFewest = 8 // scores between the quantiles without which there is no fit
	// So many standard errors are added to the logarithm of the scale.
	tailSurely = 2
)

// Quantile returns the value that a share p of scores is expected to exceed, from a generalised Pareto tail
//
//	P(s > u + t) = 0.3 (1 + ξ t/β)^(−1/ξ)
//
// beyond their quantile u. An exponential tail alone (ξ = 0) would refuse what belongs to heavy tails. With quantiles whose shares above are in one
// ratio, the next distance between them is larger by its power −ξ. Outliers, up to 8 % of all, count as
// scores that are high but do not say how high the others may be, or else they would let themselves pass. A tail that
// belongs goes on as it began between the quantiles. rows is the number of independent rows that the
// scores stand for; with few of them the tail is taken to be wider by two standard errors.
//
// It sorts scores and returns +Inf where they are too few.
func Quantile(scores []float64, p, rows float64) float64 {
	slices.Sort(scores)
	n := float64(len(scores))
	at := func(quantile float64) int { return int(quantile * n) }
	from, to := at(tailFrom), at(tailTo)
	if to-from < tailFewest || !(scores[to] > scores[from]) || math.IsInf(scores[to], 0) {
		return math.Inf(1)
	}
	between := float64(to - from - 1)
	root := math.Sqrt((1 - tailFrom) / (1 - tailTo))
	middle, top := scores[at(1-(1-tailFrom)/root)]-scores[from], scores[to]-scores[from]
	xi := math.Log((top-middle)/middle) / math.Log(root)
	xi = min(max(0, xi/(1+tailNoise/(between*tailSpread*tailSpread))), mostShape)
	beta := top / beyond(root*root, xi)
	beta *= math.Exp(tailSurely / math.Sqrt(max(1, between*min(1, rows/n))))
	return scores[from] + beta*beyond((1-tailFrom)/p, xi)
}

// beyond is the t at which (1 + ξ t)^(1/ξ) is times.
func beyond(times, xi float64) float64 {
	if xi < 1e-6 {
		return math.Log(times)
	}
	return math.Expm1(xi*math.Log(times)) / xi
}
