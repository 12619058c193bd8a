package recent

import (
	"math"
	"slices"
)

const (
	leastScore = -8.
	mostScore  = 24. // T² of e²⁴ times what is usual
	binWidth   = 1. / 32

	// MostBins is the number of bins that scores can be in.
	MostBins = int((mostScore - leastScore) / binWidth)

	// LeastP is the least probability that P returns.
	LeastP = 1e-12

	tailRows = 200 // P is by rank up to the score that 200 rows have reached, or a twentieth of fewer than 4000, and by the tail beyond
	alike    = 20  // rows in a row whose scores are hardly more than one, because the charts look back as far
)

// Distribution is a histogram of scores. The zero value knows none.
type Distribution struct {
	Low     int       // number of the first bin, from leastScore in steps of binWidth
	Weights []float64 // of the bins from there on
	Sum     float64   // of the weights
}

// add counts scores, and forgets so much that the weights stand for at most memory rows.
func (h *Distribution) add(scores []float64, memory float64) {
	if over := h.Sum + float64(len(scores)) - memory; over > 0 && h.Sum > 0 {
		keep := max(0, 1-over/h.Sum)
		h.Sum = 0
		for k := range h.Weights {
			h.Weights[k] *= keep
			h.Sum += h.Weights[k]
		}
	}
	for _, s := range scores {
		at := binOf(s)
		h.cover(at)
		h.Weights[at-h.Low]++
	}
	h.Sum += float64(len(scores))
}

// cover makes room for a bin.
func (h *Distribution) cover(at int) {
	switch {
	case len(h.Weights) == 0:
		h.Low, h.Weights = at, make([]float64, 1)
	case at < h.Low:
		h.Weights, h.Low = append(make([]float64, h.Low-at), h.Weights...), at
	case at >= h.Low+len(h.Weights):
		h.Weights = append(h.Weights, make([]float64, at+1-h.Low-len(h.Weights))...)
	}
}

// copy returns a distribution that no learner changes.
func (h *Distribution) copy() Distribution {
	return Distribution{h.Low, slices.Clone(h.Weights), h.Sum}
}

// binOf returns the bin of a score; a NaN is in the first.
func binOf(score float64) int {
	return int(min(max((score-leastScore)/binWidth, 0), float64(MostBins-1)))
}

// P returns the probability of a score at least as high, from LeastP to 1, and NaN where no score is known. It is that of one more row, given how few
// are known: an exponential tail of which the mean is known from m scores is a Pareto one,
//
//	P(s) = P(u) (1 + (s−u)/(m·mean))^−m
func (h *Distribution) P(score float64) float64 {
	if h.Sum == 0 || score != score {
		return math.NaN()
	}
	u, in, mean := h.tail()
	if score > u {
		m := max(in/alike, 0.5)
		return max(h.share(in)*math.Pow(1+(score-u)/(m*mean), -m), LeastP)
	}
	at := (score-leastScore)/binWidth - float64(h.Low) // in bins
	beyond := 0.
	for k := len(h.Weights) - 1; k >= 0 && float64(k+1) > at; k-- {
		beyond += float64(h.Weights[k] * min(1, float64(k+1)-at))
	}
	return h.share(beyond)
}

// share is the probability of a score that a number of rows have reached.
func (h *Distribution) share(rows float64) float64 {
	return min(1, (rows+alike)/(h.Sum+alike))
}

// tail returns where the tail begins, how many rows are in it, and by how much they are beyond it in the mean.
func (h *Distribution) tail() (u, in, mean float64) {
	wanted := min(tailRows, h.Sum/20)
	at, excess := len(h.Weights), 0.
	for at > 0 && in < wanted {
		at--
		in += h.Weights[at]
	}
	u = leastScore + float64(h.Low+at)*binWidth
	for k, w := range h.Weights[at:] {
		excess += float64(w * (float64(k) + 0.5) * binWidth)
	}
	return u, in, excess / in
}

// runStart is the score above which a run of high scores is one, and leastScore where too few are known to tell.
func (h *Distribution) runStart() float64 {
	if h.Sum < 2*runEnds {
		return leastScore
	}
	return h.Quantile(runStart)
}

// Quantile returns the score that a share of the scores do not pass.
func (h *Distribution) Quantile(share float64) float64 {
	at, beyond := len(h.Weights), 0.
	for at > 0 && beyond+h.Weights[at-1] <= (1-share)*h.Sum {
		at--
		beyond += h.Weights[at]
	}
	return leastScore + float64(h.Low+at)*binWidth
}
