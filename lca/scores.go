package lca

import (
	"math"
	"slices"
)

// LeastP is the smallest probability that Scores.P returns.
const LeastP = 1e-12

// Scores says how often rows like those that a model was learnt from have a score −log p as high as a given one.
type Scores struct {
	// Sorted holds the scores of the model's neighbours, or of some of them, ascending, each without itself among the neighbours: what fresh rows
	// of the same kind would score. With itself, each would score less than any fresh row.
	Sorted []float64
	Tail   Tail
}

// Tail is a generalised Pareto distribution beyond the 90 % quantile of the scores:
//
//	P(s) = 0.1 · (1 + ξ (s−u)/β)^(−1/ξ),  exp(−(s−u)/β) in place of the power where ξ = 0.
//
// With β = 0 there is no tail.
type Tail struct {
	U    float64 `json:"u"`
	Xi   float64 `json:"xi"`
	Beta float64 `json:"beta"`
}

const (
	tailShare = 0.1
	// The shape is kept in these bounds: below, a few high scores would be impossible; above, p would hardly fall.
	leastShape, mostShape = -0.5, 3.
)

// newScores sorts leave-one-out scores and fits their tail (scoretail.go). It keeps them and drops those that are not finite;
// with none left it returns nil. Scores beyond limit were left out when they came, and the given share of them is independent.
func newScores(values []float64, limit, share float64) *Scores {
	values = slices.DeleteFunc(values, func(v float64) bool { return v-v != 0 })
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	u := values[int((1-tailShare)*float64(len(values)))]
	first, _ := slices.BinarySearch(values, math.Nextafter(u, math.Inf(1)))
	s := &Scores{Sorted: values, Tail: Tail{U: u}}
	if beyond := values[first:]; len(beyond) > 0 {
		s.Tail.Xi, s.Tail.Beta = fitTail(beyond, u, limit, share)
	}
	return s
}

// P returns the probability of a score at least as high, from LeastP to 1: by rank among the scores, and by the tail beyond
// their 90 % quantile. It is NaN for NaN.
func (s *Scores) P(score float64) float64 {
	if score > s.Tail.U && s.Tail.Beta > 0 {
		return max(tailShare*s.Tail.survival(score), LeastP)
	}
	if score != score {
		return score
	}
	below, _ := slices.BinarySearch(s.Sorted, score)
	n := len(s.Sorted)
	return float64(n-below+1) / float64(n+1)
}

// Told returns the least probability that the scores can tell: a tenth of a rank. What P says below it is the tail, continued.
func (s *Scores) Told() float64 { return 0.1 / float64(len(s.Sorted)) }

// survival returns the share of the tail that is at least as high as a score beyond u.
func (t Tail) survival(score float64) float64 {
	x := (score - t.U) / t.Beta
	if t.Xi == 0 {
		return math.Exp(-x)
	}
	if !(t.Xi*x > -1) { // beyond the end of a tail that has one
		return 0
	}
	return math.Exp(-math.Log1p(t.Xi*x) / t.Xi)
}
