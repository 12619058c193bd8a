package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// curved are rows whose columns are products of skewed ones: a row of the tail is far out in directions that are thin among
// the others, as sizes, areas and volumes are.
func curved(r *rand.Rand, rows, factors int) *mat.Dense {
	x, f := mat.NewDense(rows, 3*factors, nil), make([]float64, factors)
	for i := range rows {
		for k := range f {
			f[k] = math.Exp(0.4 * r.NormFloat64())
		}
		for k, v := range f {
			x.Set(i, k, v)
			x.Set(i, factors+k, v*v+0.02*r.NormFloat64())
			x.Set(i, 2*factors+k, v*f[(k+1)%factors]+0.02*r.NormFloat64())
		}
	}
	return x
}

// TestFewRows holds that of a small set with tails that belong to it all rows are learnt, in each pass, and that outliers are
// still left out of one.
func TestFewRows(t *testing.T) {
	const factors, rows, b = 10, 455, 65
	passes := some(2, 0, 1, 2, 3)
	for _, c := range some(2, []struct {
		name     string
		preset   lca.Preset
		outliers float64 // deviations of one row in 50; 0: none
	}{
		{"tails, metric", lca.PresetMetric, 0},
		{"outliers, density", lca.PresetDensity, 100},
		{"tails, density", lca.PresetDensity, 0},
		{"outliers, metric", lca.PresetMetric, 100},
	}...) {
		t.Run(c.name, func(t *testing.T) {
			config := DefaultConfig(3 * factors)
			config.Preset, config.Minibatch = c.preset, b
			l, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			r, outliers := rand.New(rand.NewPCG(8, 14)), 0
			x := curved(r, rows, factors)
			for i := 25; c.outliers > 0 && i < rows; i += 50 {
				outliers++
				for k := range 3 * factors {
					x.Set(i, k, c.outliers*r.NormFloat64())
				}
			}
			for _, pass := range passes { // with identities of their own
				for i := 0; i < rows; i += b {
					if _, err := l.Learn(x.Slice(i, i+b, 0, 3*factors).(*mat.Dense), sequence(pass*rows+i, b), nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got, want := l.Info().Gated+uint64(l.Quarantined()), uint64(len(passes)*outliers); got != want {
				t.Errorf("%d rows are not learnt, want %d", got, want)
			}
		})
	}
}
