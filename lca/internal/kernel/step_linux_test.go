package kernel_test

import (
	"fmt"
	"slices"
	"testing"
)

// BenchmarkStep is our side of BenchmarkTwin alone, for profiles.
func BenchmarkStep(b *testing.B) {
	locked(b)
	for _, dim := range []int{16, 64, 256} {
		for _, batch := range []int{100, 1000} {
			for _, kind := range []string{"aniso", "mix", "manifold", "usps"} {
				b.Run(fmt.Sprintf("d=%d/B=%d/%s", dim, batch, kind), func(b *testing.B) {
					p := newProblem(b, kind, batch, 3000, dim)
					s := newStepper(p, 1)
					s.run(b)
					t := make([]float64, b.N)
					b.ResetTimer()
					for i := range t {
						began := cpuSeconds(b)
						s.run(b)
						t[i] = cpuSeconds(b) - began
					}
					slices.Sort(t)
					b.ReportMetric(t[0]*1e3, "min-ms")
					b.ReportMetric(t[len(t)/2]*1e3, "median-ms")
				})
			}
		}
	}
}
