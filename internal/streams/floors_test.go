package streams

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// BenchmarkFloors measures every stream with both presets, RUNS seeds each (20 unless said), and writes the means and
// standard errors to the file FLOORS.
func BenchmarkFloors(b *testing.B) {
	runs := seeds()
	var lines []map[string]any
	for _, s := range All() {
		for _, preset := range []lca.Preset{lca.PresetDensity, lca.PresetMetric} {
			figures := map[string][]float64{}
			for seed := range uint64(runs) {
				c := online.DefaultConfig(s.Dim)
				c.AcceptRows = 1000 // a week, which is the default of density, is no stream
				c.Preset = preset
				r, err := Measure(c, s.Draw(1000+seed))
				if err != nil {
					b.Fatal(err)
				}
				for name, v := range map[string]float64{
					"excess": r.Excess, "gaussian": r.Gaussian, "refused": r.Refused, "alarms": r.Alarms, "recovery": r.Recovery, "first": r.First,
				} {
					if !math.IsNaN(v) {
						figures[name] = append(figures[name], v)
					}
				}
			}
			line := map[string]any{"stream": s.Name, "preset": preset.String(), "runs": runs}
			for name, v := range figures {
				mean, standardError := spread(v)
				line[name] = map[string]float64{"mean": mean, "se": standardError}
			}
			b.Logf("%v", line)
			lines = append(lines, line)
		}
	}
	b.ReportMetric(0, "ns/op")
	store(b, "FLOORS", lines)
}

// seeds is how many a benchmark measures.
func seeds() int {
	if v, err := strconv.Atoi(os.Getenv("RUNS")); err == nil {
		return v
	}
	return 20
}

// store writes what a benchmark has measured to the file that a variable of the environment names.
func store(b *testing.B, variable string, lines []map[string]any) {
	b.Helper()
	path := os.Getenv(variable)
	if path == "" {
		return
	}
	text, err := json.MarshalIndent(lines, "", " ")
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		b.Fatal(err)
	}
}

// spread returns the mean of v and its standard error.
func spread(v []float64) (mean, standardError float64) {
	n, squares := float64(len(v)), 0.0
	for _, x := range v {
		mean += x / n
	}
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(squares / max(n*(n-1), 1))
}
