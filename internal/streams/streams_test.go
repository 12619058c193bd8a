package streams

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// The floors are for the mean of many seeds. A test has few, so it allows for two standard errors of the difference. With -short it has one, and allows
// for nothing.
const testSeeds = 3

// few are the seeds from 0 to n; with -short the first.
func few(n int) (all []uint64) {
	if testing.Short() {
		n = 1
	}
	for seed := range n {
		all = append(all, uint64(seed))
	}
	return all
}

// presetsOf are both presets; with -short each second case of a test has one of them, the others the other.
func presetsOf(i int) []lca.Preset {
	both := []lca.Preset{lca.PresetDensity, lca.PresetMetric}
	if testing.Short() {
		return both[i%2 : i%2+1]
	}
	return both
}

// floor is what a stream must reach.
type floor struct {
	stream          string
	excess          float64 // nats above the truth
	refused, alarms float64 // share of the rows; in the whole stream
	long            bool    // not with -short: another stream is of its kind
}

// TestFloors holds short versions of the floors, for both presets.
func TestFloors(t *testing.T) {
	for i, f := range []floor{
		{"AR(1) .99", 1, 0.10, 1, true},
		{"AR(1) .998", 5, 0.10, 1, false},
		{"all columns shrink to a tenth", 1, 1, 1, false},
		{"one column shrinks to a tenth", 1, 1, 1, true},
		{"5 % of rows at 8 sd", 1.5, 0.10, 0, true},
		{"a new cluster of 5 %", 1.5, 0.10, 0, false},
		{"a day's cycle in two columns", 1, 0.02, 0, false},
		{"two ways to run, in turn", 4, 0.2, 3, false}, // the metric preset's kernels are wide
	} {
		if testing.Short() && f.long {
			continue
		}
		for _, preset := range presetsOf(i) {
			t.Run(f.stream+" "+preset.String(), func(t *testing.T) {
				var excess, refused, alarms []float64
				for _, seed := range few(testSeeds) {
					r := measured(t, f.stream, preset, seed)
					excess, refused, alarms = append(excess, r.Excess), append(refused, r.Refused), append(alarms, r.Alarms)
				}
				atMost(t, "nats above the truth", excess, f.excess)
				atMost(t, "share of the rows refused", refused, f.refused)
				atMost(t, "alarms", alarms, f.alarms)
			})
		}
	}
}

// measured is what the shipped defaults make of a stream.
func measured(t *testing.T, name string, preset lca.Preset, seed uint64) Result {
	t.Helper()
	return measuredRows(t, name, preset, seed, 0)
}

// measuredRows is the same of its first rows; 0: all.
func measuredRows(t *testing.T, name string, preset lca.Preset, seed uint64, rows int) Result {
	t.Helper()
	for _, s := range All() {
		if s.Name != name {
			continue
		}
		c := online.DefaultConfig(s.Dim)
		c.AcceptRows = 1000 // a week, which is the default of density, is no stream
		c.Preset = preset
		trial := s.Draw(seed)
		if rows > 0 {
			trial.Rows = trial.Rows.Slice(0, rows, 0, s.Dim).(*mat.Dense)
		}
		r, err := Measure(c, trial)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Fatalf("no stream %q", name)
	return Result{}
}

// atMost fails if the mean is above the limit by more than two standard errors.
func atMost(t *testing.T, what string, v []float64, limit float64) {
	t.Helper()
	mean, standardError := spread(v)
	t.Logf("%s: %.3f ± %.3f, at most %v", what, mean, standardError, limit)
	if !(mean <= limit+2*standardError) {
		t.Errorf("%s: %.3f ± %.3f (%.3f), want at most %v", what, mean, standardError, v, limit)
	}
}
