package streams

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// BenchmarkProbability measures how often rows of the law of a stream, which the model has not seen, have a p below 0.01, 0.001 and 0.0001, as
// multiples of that: 1 is right. With PresetDensity, RUNS seeds of 50,000 such rows each; it writes the means and standard errors to the file
// PROBABILITY.
func BenchmarkProbability(b *testing.B) {
	const fresh = 50000
	levels := [...]float64{1e-2, 1e-3, 1e-4}
	runs := seeds()
	var lines []map[string]any
	for _, s := range probable() {
		shares := map[string][]float64{}
		for seed := range uint64(runs) {
			r := rand.New(rand.NewPCG(5000+seed, 77))
			l := s.law(r)
			x := l.rows(r, s.rows)
			if s.arrange != nil {
				s.arrange(r, l, x)
			}
			c := online.DefaultConfig(s.Dim)
			c.Preset = lca.PresetDensity
			m, score := learntRows(b, c, x), make([]float32, fresh)
			m.NewScorer().Score(nil, score, l.rows(r, fresh).RawMatrix().Data, fresh)
			for _, level := range levels {
				below := 0.0
				for _, v := range score {
					if m.Scores.P(float64(v)) < level {
						below++
					}
				}
				name := "below " + strconv.FormatFloat(level, 'g', -1, 64)
				shares[name] = append(shares[name], below/fresh/level)
			}
		}
		line := map[string]any{"stream": s.Name, "runs": runs}
		for name, v := range shares {
			mean, standardError := spread(v)
			line[name] = map[string]float64{"mean": mean, "se": standardError}
		}
		b.Logf("%v", line)
		lines = append(lines, line)
	}
	b.ReportMetric(0, "ns/op")
	store(b, "PROBABILITY", lines)
}

// probable are the streams of BenchmarkProbability.
func probable() []Stream {
	of := func(l law) func(*rand.Rand) law { return func(*rand.Rand) law { return l } }
	return []Stream{
		{Name: "white noise, 5 columns", Dim: 5, rows: length, law: of(normal(5))},
		{Name: "white noise, 20 columns", Dim: 20, rows: length, law: of(normal(20))},
		{Name: "five + 8 noise, mixed", Dim: 10, rows: length, law: func(r *rand.Rand) law { return five(8).mixed(mixing(r, 10), make([]float64, 10)) }},
		{Name: "t, 3 degrees", Dim: columns, rows: length, law: of(student(columns, 3))},
		{Name: "t, 1.5 degrees", Dim: columns, rows: length, law: of(student(columns, 1.5))},
		{Name: "lognormal 1.5", Dim: columns, rows: length, law: of(lognormal(columns, 1.5))},
		{Name: "5 % of rows at 8 sd", Dim: columns, rows: length, law: mixedFive, arrange: outliers(0.05, 8)},
		{Name: "AR(1) .99", Dim: columns, rows: length, law: of(normal(columns)), arrange: autoregressive(0.99)},
		{Name: "AR(1) .998", Dim: columns, rows: length, law: of(normal(columns)), arrange: autoregressive(0.998)},
	}
}
