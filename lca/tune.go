package lca

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Tuning is one pair of ν and ν_g that Tune tried.
type Tuning struct {
	Nu, NuGaussian float64
	Kind           Kind    // KindGaussian while ν_g was tuned
	NLL            float64 // on the fresh rows, nats per row; +Inf where the fit collapsed

	Fresh []float64 // −log p of each fresh row; nil where the fit collapsed
}

// TuneGrid holds what Tune tries: ν and ν_g in the unit of the configuration.
type TuneGrid struct{ Nu, NuGaussian []float64 }

// DefaultTuneGrid spans the useful range of ν and ν_g in UnitRelative and UnitCovariance, in steps of about three.
func DefaultTuneGrid() TuneGrid {
	return TuneGrid{
		Nu:         []float64{0, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1},
		NuGaussian: []float64{0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2},
	}
}

// Tune chooses ν and ν_g as section 6.2 does: ν_g is the one with which a single Gaussian does best on
// fresh rows, and ν then the one with which c's model does. It returns c with both set, and all it
// tried. The fresh rows must not be among those of train; the paper then trains on both.
func Tune(ctx context.Context, train, fresh *mat.Dense, c Config, grid TuneGrid) (Config, []Tuning, error) {
	return TuneBy(ctx, c, grid, func(ctx context.Context, c Config) ([]float64, error) {
		m, err := Fit(ctx, train, c)
		if err != nil {
			return nil, err
		}
		scores := m.logDensity(nil, fresh, shifted(train, m.Mean), nil)
		for i := range scores {
			scores[i] = -scores[i]
		}
		return scores, nil
	})
}

// TuneBy is Tune for what a caller fits: score returns −log p of each fresh row under the fit with a configuration, whose Kind is
// KindGaussian while ν_g is tuned. A fit that fails because a matrix is singular counts as collapsed.
func TuneBy(ctx context.Context, c Config, grid TuneGrid, score func(context.Context, Config) ([]float64, error)) (Config, []Tuning, error) {
	var tried []Tuning
	best := func(kind Kind, values []float64, set func(*Config, float64)) error {
		lowest, found := math.Inf(1), c
		for _, v := range values {
			trial := c
			trial.Kind = kind
			set(&trial, v)
			t := Tuning{Nu: trial.Nu, NuGaussian: trial.NuGaussian, Kind: kind, NLL: math.Inf(1)}
			var err error
			switch t.Fresh, err = score(ctx, trial); {
			case err == nil:
				t.NLL = mean(t.Fresh)
			case !errors.Is(err, prop1.ErrSingular):
				return err
			}
			tried = append(tried, t)
			if t.NLL < lowest {
				lowest, found = t.NLL, trial
			}
		}
		if len(values) > 0 && math.IsInf(lowest, 1) {
			return fmt.Errorf("lca: tune: the fit collapsed for every ν of %v: %w", values, prop1.ErrSingular)
		}
		found.Kind = c.Kind
		c = found
		return nil
	}
	if err := best(KindGaussian, grid.NuGaussian, func(t *Config, v float64) { t.NuGaussian = v }); err != nil {
		return c, tried, err
	}
	if c.Kind == KindGaussian {
		return c, tried, nil
	}
	err := best(c.Kind, grid.Nu, func(t *Config, v float64) { t.Nu = v })
	return c, tried, err
}
