//go:build unix

package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca"
)

// BenchmarkFamilies is what a minibatch of LCA costs by the family of metrics, once the first rows have been fitted: of rows without a leading direction,
// which are the hardest for a low-rank metric, and of rows with eight.
func BenchmarkFamilies(b *testing.B) {
	for _, dim := range []int{256, 512, 1024} {
		for _, metric := range []lca.Metric{lca.MetricFull, lca.MetricLowRank, lca.MetricDiagonal} {
			for _, factors := range []int{0, 8} {
				b.Run(fmt.Sprintf("d=%d/%v/factors=%d", dim, metric, factors), func(b *testing.B) {
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
					addFactors(x, dim, factors)
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
}

// addFactors adds directions to rows that are of standard deviation 1 in each column, which then have five times that.
func addFactors(x []float64, dim, factors int) {
	r := rand.New(rand.NewPCG(3, uint64(dim)))
	load := make([]float64, factors*dim)
	for k := range load {
		load[k] = 5 * r.NormFloat64() / math.Sqrt(float64(max(factors, 1)))
	}
	for i := 0; i < len(x); i += dim {
		for f := range factors {
			v := r.NormFloat64()
			for k := range dim {
				x[i+k] += float64(v * load[f*dim+k])
			}
		}
	}
}
