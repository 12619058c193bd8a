package streams

import (
	"testing"

	"github.com/lca-stream/lca-stream/lca"
)

// BenchmarkWhy measures how often Why names the column first, and among three, that is four standard deviations off, by models
// of PresetDensity with all that the data choose, RUNS seeds each, and writes the means and standard errors to the file WHY.
func BenchmarkWhy(b *testing.B) {
	runs := seeds()
	var lines []map[string]any
	for _, name := range []string{"white noise", "five + 8 noise, mixed", "A/B/A/B", "collinear columns", "duplicated columns"} {
		var first, three []float64
		for seed := range uint64(runs) {
			m, trial := learnt(b, name, lca.KernelAuto, 1000+seed, true)
			f, t := named(m, trial.Fresh)
			first, three = append(first, f), append(three, t)
		}
		line := map[string]any{"stream": name, "runs": runs}
		for figure, v := range map[string][]float64{"first": first, "three": three} {
			mean, standardError := spread(v)
			line[figure] = map[string]float64{"mean": mean, "se": standardError}
		}
		b.Logf("%v", line)
		lines = append(lines, line)
	}
	b.ReportMetric(0, "ns/op")
	store(b, "WHY", lines)
}
