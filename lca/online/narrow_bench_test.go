//go:build unix

package online

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
)

// BenchmarkFamilies is what a minibatch of LCA costs by the family of metrics, once the first rows have been fitted.
func BenchmarkFamilies(b *testing.B) {
	for _, dim := range []int{256, 512, 1024} {
		for _, metric := range []lca.Metric{lca.MetricFull, lca.MetricLowRank, lca.MetricDiagonal} {
			b.Run(fmt.Sprintf("d=%d/%v", dim, metric), func(b *testing.B) {
				const rows = 100
				c := DefaultConfig(dim)
				c.Kind, c.Metric, c.Minibatch = lca.KindLCA, metric, rows
				c.WarmupRows = 4 * dim
				if metric == lca.MetricLowRank {
					c.Rank = 8
				}
				l, err := NewLearner(c)
				if err != nil {
					b.Fatal(err)
				}
				x, _ := clusters(rows*60, dim)
				learn := func(i int) {
					at := i % 60 * rows
					if _, err := l.Learn(mat.NewDense(rows, dim, x[at*dim:(at+rows)*dim]), nil, nil); err != nil {
						b.Fatal(err)
					}
				}
				began := testtools.ProcessorTime(b)
				for i := range 60 {
					learn(i)
				}
				first := (testtools.ProcessorTime(b) - began).Seconds()
				began = testtools.ProcessorTime(b)
				b.ResetTimer()
				for i := range b.N {
					learn(i)
				}
				b.ReportMetric(float64(rows*b.N)/(testtools.ProcessorTime(b)-began).Seconds(), "rows/cpu-s")
				b.ReportMetric(first, "first-cpu-s")
			})
		}
	}
}
