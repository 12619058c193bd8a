package online

import (
	"math"

	"github.com/lca-stream/lca-stream/lca"
)

const (
	// The growing n is this share of the rows learnt since the start or the last alarm. The step
	// 1−γ^(B/n) is then about 4B/rows: early rows, learnt under a metric that was still wide, are
	// forgotten polynomially, and no n has to be known beforehand.
	growthShare = 1.0 / 8
	// With a memory of fewer rows than this, or than 2.6 per dimension, C_L would be an average of too few.
	shortestMemory        = 50
	shortestMemoryColumns = 2.6
	// The first minibatches get two EM steps each, which reaches the same NLL with a third of the rows. Later the
	// second step only adds noise.
	eagerRows  = 2000
	eagerSteps = 2
)

// memory returns the current n of γ^(B/n), in rows (section 5.1): PassRows where it is set, and
// otherwise clip(rows/8, max(50, 2.6·d), PassRowsCap). With γ = 0 or a half-life it is what gives the
// same discount.
//
// With a time gap both bounds are gap times as large, because they are meant for independent rows. But the lower one is
// at most half of the rows so far, which weighs all of them alike, and the upper one at most the memory of μ and C_G.
func (c Config) memory(rows, gap uint64) float64 {
	switch {
	case c.HalfLifeRows > 0 && c.Gamma > 0:
		return float64(c.HalfLifeRows) * math.Log(c.Gamma) / math.Log(0.5)
	case c.PassRows != lca.Auto:
		return float64(c.PassRows)
	}
	lo := max(shortestMemory, shortestMemoryColumns*float64(c.Dim))
	hi := max(float64(c.PassRowsCap), lo)
	if gap > 1 {
		lo = max(lo, min(lo*float64(gap), 0.5*float64(rows)))
		hi = max(hi, lo, min(hi*float64(gap), 0.5*c.momentsMemory()))
	}
	return min(max(growthShare*float64(rows), lo), hi)
}

// grows says whether n still grows.
func (c Config) grows(rows, gap uint64) bool {
	return c.memory(rows, gap) < c.memory(math.MaxUint64, gap)
}

// discount returns γ^(B/n), the weight that C_L keeps when B rows are learnt (eq. 8, section 5.1).
func (c Config) discount(b int, n float64) float64 {
	if c.HalfLifeRows > 0 {
		return math.Exp2(-float64(b) / float64(c.HalfLifeRows))
	}
	if c.Gamma == 0 {
		return 0
	}
	return math.Pow(c.Gamma, float64(b)/n)
}

// steps returns the number of EM steps for a minibatch.
func (c Config) steps(rows uint64) int {
	switch {
	case c.InnerSteps != lca.Auto:
		return c.InnerSteps
	case c.Gamma == 0 && c.HalfLifeRows == 0:
		return 1 // plain EM: the caller counts the steps
	case rows < eagerRows:
		return eagerSteps
	}
	return 1
}
