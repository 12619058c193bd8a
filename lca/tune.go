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
	var tried []Tuning
	best := func(kind Kind, values []float64, set func(*Config, float64)) error {
		lowest, found := math.Inf(1), c
		for _, v := range values {
			trial := c
			trial.Kind = kind
			set(&trial, v)
			nll, err := tryOn(ctx, train, fresh, trial)
			if err != nil {
				return err
			}
			tried = append(tried, Tuning{Nu: trial.Nu, NuGaussian: trial.NuGaussian, Kind: kind, NLL: nll})
			if nll < lowest {
				lowest, found = nll, trial
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

// tryOn returns the NLL of fresh rows under the fit of train; +Inf where the fit collapsed.
func tryOn(ctx context.Context, train, fresh *mat.Dense, c Config) (float64, error) {
	m, err := Fit(ctx, train, c)
	if errors.Is(err, prop1.ErrSingular) {
		return math.Inf(1), nil
	}
	if err != nil {
		return 0, err
	}
	return m.TestNLL(fresh, train), nil
}
