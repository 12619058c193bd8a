package stats

import (
	"math"
	"testing"
)

// A probability is in the bucket of the least bound that it does not pass.
func TestScoreBuckets(t *testing.T) {
	for i, bound := range scoreBounds {
		var c ScoreCounts
		c.Add(bound)
		c.Add(bound * (1 - 1e-9))
		c.Add(math.NaN())
		if c.buckets[i] != 2 || c.sum == 0 {
			t.Errorf("up to %g: %v", bound, c.buckets)
		}
	}
}
