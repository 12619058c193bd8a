package lca_test

import (
	"context"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestEveryMetricHasAnMStep holds that a metric which the configuration accepts is fitted as what it is, and one
// that it does not know is refused: none is ever taken for another.
func TestEveryMetricHasAnMStep(t *testing.T) {
	x := mat.NewDense(6, 2, []float64{0, 0, 1, 0, 0, 2, 3, 3, 4, 3, 3, 5})
	for m := range lca.Metric(10) {
		c := lca.DefaultConfig()
		c.Metric, c.MaxIter = m, 1
		if m == lca.MetricLowRank {
			c.Rank = 1
		}
		_, err := lca.Fit(context.Background(), x, c)
		if _, unknown := lca.ParseMetric(m.String()); (unknown == nil) != (err == nil) {
			t.Errorf("%v: Fit says %v", m, err)
		}
	}
}
