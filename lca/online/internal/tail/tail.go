// Package tail tells from some scores which one is beyond all that they lead one to expect.
package tail

import (
	"math"
	"slices"
)

const (
	// The tail is fitted to the scores between these quantiles, and what is above the second counts by number alone.
	tailFrom = 0.70
	tailTo   = 0.90
	// The shape is expected near tailShape, give or take tailSpread: few scores say little about it.
	tailShape  = 0
	tailSpread = 0.3
	tailFewest = 8 // scores between the quantiles without which there is no fit
	// So many standard errors are added to the logarithm of the scale.
	tailSurely = 2
	// Logarithms of a product that is larger are taken at once; each factor is below 1000.
	tailProduct = 1e100
)

// Quantile returns the value that a share p of scores is expected to exceed, from a generalised Pareto tail
//
//	P(s > u + t) = ¼ (1 + ξ t/β)^(−1/ξ)
//
// beyond the upper quartile u of the scores. An exponential tail alone (ξ = 0) would refuse what belongs to heavy tails.
// The fit is by maximum likelihood with the highest scores censored: outliers, up to 8 % of all, count as
// scores that are high but do not say how high the others may be, or else they would let themselves pass. A tail that
// belongs goes on as it began between the two quantiles. rows is the number of independent rows that the
// scores stand for; with few of them the tail is taken to be wider by two standard errors.
//
// It sorts scores and returns +Inf where they are too few.
func Quantile(scores []float64, p, rows float64) float64 {
	slices.Sort(scores)
	n := len(scores)
	from, to := int(tailFrom*float64(n)), int(tailTo*float64(n))
	u := scores[min(from, max(n-1, 0))]
	if to-from < tailFewest || !(scores[to] > u) || math.IsInf(scores[to], 0) {
		return math.Inf(1)
	}
	inner, top := scores[from+1:to], scores[to]-u
	best, shape, scale := math.Inf(-1), 0.0, 0.0
	for xi := 0.0; xi < 1.55; xi += 0.1 {
		beta := censoredScale(inner, u, top, n-to, xi)
		z := (xi - tailShape) / tailSpread
		if l := censoredLikelihood(inner, u, top, n-to, xi, beta) - 0.5*z*z; l > best {
			best, shape, scale = l, xi, beta
		}
	}
	fewer := max(1, float64(len(inner))*min(1, rows/float64(n)))
	scale *= math.Exp(tailSurely / math.Sqrt(fewer))
	return u + scale*paretoQuantile((1-tailFrom)/p, shape)
}

// paretoQuantile is the t at which (1 + ξ t)^(1/ξ) is times.
func paretoQuantile(times, xi float64) float64 {
	if math.Abs(xi) < 1e-6 {
		return math.Log(times)
	}
	return math.Expm1(xi*math.Log(times)) / xi
}

// censoredScale is the β that is most likely for a ξ, by golden section in log β.
func censoredScale(inner []float64, u, top float64, above int, xi float64) float64 {
	const golden = 0.6180339887498949
	lo, hi := math.Log(top)-6, math.Log(top)+6
	if xi < 0 {
		lo = math.Log(-xi*top) + 1e-3 // the tail ends at −β/ξ
		hi = max(hi, lo+1)
	}
	f := func(logBeta float64) float64 {
		return censoredLikelihood(inner, u, top, above, xi, math.Exp(logBeta))
	}
	a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
	fa, fb := f(a), f(b)
	for range 30 {
		if fa > fb {
			hi, b, fb = b, a, fa
			a = hi - golden*(hi-lo)
			fa = f(a)
		} else {
			lo, a, fa = a, b, fb
			b = lo + golden*(hi-lo)
			fb = f(b)
		}
	}
	return math.Exp(0.5 * (lo + hi))
}

// censoredLikelihood is the log likelihood of a generalised Pareto tail beyond u, of which above scores are only known
// to exceed u + top.
func censoredLikelihood(inner []float64, u, top float64, above int, xi, beta float64) float64 {
	if math.Abs(xi) < 1e-6 {
		sum := 0.0
		for _, s := range inner {
			sum += s - u
		}
		return -float64(len(inner))*math.Log(beta) - (sum+float64(above)*top)/beta
	}
	sum, product := 0.0, 1.0 // one logarithm for several scores
	for _, s := range inner {
		if product *= 1 + xi*(s-u)/beta; product > tailProduct {
			sum += math.Log(product)
			product = 1
		}
	}
	sum += math.Log(product)
	return -float64(len(inner))*math.Log(beta) - (1+1/xi)*sum - float64(above)/xi*math.Log1p(xi*top/beta)
}
