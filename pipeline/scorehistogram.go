package pipeline

import (
	"math"
	"slices"
	"sync/atomic"
)

// scoreBounds are the upper bounds of the buckets for lca_p: fine where alarms are.
var scoreBounds = [...]float64{1e-12, 1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1}

// ScoreBounds are the upper bounds of the buckets of Stats.Scores. No row is beyond the last.
func ScoreBounds() []float64 { return slices.Clone(scoreBounds[:]) }

// scoreCounts counts the rows of a batch by lca_p.
type scoreCounts struct {
	buckets [len(scoreBounds)]uint64
	sum     float64
}

// add counts a row, unless its probability is not a number.
func (c *scoreCounts) add(p float64) {
	for i := len(scoreBounds) - 1; i >= 0; i-- { // most rows are in the last buckets
		if i > 0 && p <= scoreBounds[i-1] {
			continue
		}
		if p == p {
			c.buckets[i]++
			c.sum += p
		}
		return
	}
}

// scoreHistogram counts the rows of a process by lca_p.
type scoreHistogram struct {
	buckets [len(scoreBounds)]atomic.Uint64
	sum     atomic.Uint64 // bits of the sum
}

func (h *scoreHistogram) keep(c *scoreCounts) {
	for i, n := range c.buckets {
		if n > 0 {
			h.buckets[i].Add(n)
		}
	}
	for c.sum > 0 {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+c.sum)) {
			return
		}
	}
}

// Scores returns how many whitened rows have their lca_p in each bucket of ScoreBounds, and the sum of all lca_p.
func (s *Stats) Scores() (sum float64, buckets []uint64) {
	buckets = make([]uint64, len(scoreBounds))
	for i := range buckets {
		buckets[i] = s.scores.buckets[i].Load()
	}
	return math.Float64frombits(s.scores.sum.Load()), buckets
}
