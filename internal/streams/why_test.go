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
	for _, c := range []struct {
		stream string
		off    float64 // robust standard deviations by which one column is moved
	}{
		{"white noise", 4}, {"five + 8 noise, mixed", 4}, {"A/B/A/B", 4}, {"collinear columns", 4}, {"duplicated columns", 4},
		{"t, 1.5 degrees", 20}, {"t, 1.5 degrees", 100}, {"lognormal 1.5", 20}, {"lognormal 1.5", 100},
	} {
		name := c.stream
		var first, three []float64
		for seed := range uint64(runs) {
			m, trial := learnt(b, name, lca.KernelAuto, 1000+seed, true)
			f, t := named(m, trial.Fresh, c.off)
			first, three = append(first, f), append(three, t)
		}
		line := map[string]any{"stream": name, "off": c.off, "runs": runs}
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
