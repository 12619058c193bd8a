package lca

import (
	"errors"
	"fmt"
	"math"
)

// Config is everything that decides what Fit finds in given rows. Start from DefaultConfig, or from the Fit method of
// online.Config to refit a stream's model; the zero value is not valid.
type Config struct {
	Kind   Kind   // default KindLCAGauss
	Metric Metric // default MetricFull
	Rank   int    // rank of MetricLowRank, 1 ≤ Rank < number of columns; 0 otherwise

	Preset     Preset  // default PresetMetric; decides Nu, NuGaussian and NuUnit where they are Auto
	Nu         float64 // ν of the Parzen part, ≥ 0; Auto: metric 0.1, density 1e-2
	NuGaussian float64 // ν_g of the Gaussian part, ≥ 0; Auto: 1e-3
	NuUnit     Unit    // default UnitAuto, by preset; UnitAbsolute is the paper's and scales no column

	Kernel Kernel // default KernelAuto
	DOF    int    // degrees of freedom of KernelStudent, 1 … MostDOF; 0 = DegreesOfFreedom

	MaxIter int     // most EM steps (passes, when subsampling); 0 = to convergence; 1 = Manifold Parzen Windows
	Tol     float64 // converged when a step gains less, nats per row; 0 = 1e-6; < 0 = never (wants MaxIter)

	Minibatch  int     // B, rows whose local covariances are averaged per step (section 5.1); 0 = all
	Neighbours int     // N, neighbours drawn again for each step (section 5.2); 0 = all
	Gamma      float64 // γ of eq. 8, 0 ≤ γ < 1; 0 forgets the earlier C_L at once, as plain EM does
	TargetRows int     // kernel width corrected from N to this many neighbours, (N/target)^{2/(d_P+4)}; 0 = off

	// Precision of the E-step's kernels, default Float64. 0 means the plain loops of estep.go, which exist to be
	// read, and to check the kernels against.
	Precision Precision

	// Near names more rows that are no neighbours of a row, such as those near in time. It may be called by many goroutines
	// at once. Nil: none. A fit that samples rows or neighbours cannot have it.
	Near func(row int) []int32

	NearCopies  bool // leave out pairs closer than d·1e-6 in squared whitened distance; default true, false for discrete data
	Coordinates Coordinates
	Components  Components
	Seed        uint64 // of the minibatches, neighbours and kurtosis starts; default 1

	Trace func(Iteration) // called after each step, from the goroutine that called Fit; nil = none
}

// Iteration is one line of a fit's trace: the model after Iter steps. The penalised objective
// NLL + ν/2 tr P_L + ν_g/2 tr P_G (with UnitCovariance tr C_G P_L and tr C_G P_G) never rises under plain EM; with
// subsampling all is estimated from the rows and neighbours drawn, over a pass.
type Iteration struct {
	Run       int     // 0; LCA-Gauss-Red and the kurtosis starts count their reruns
	Iter      int     // EM steps done in this run (passes, when subsampling); 0 is the start
	NLL       float64 // leave-one-out negative log-likelihood, nats per row, all constants
	Penalised float64 // the same with the penalties, which are in working units
	Gaussian  int     // d_G
	Parzen    int     // d_P
	Effective float64 // mean effective number of neighbours, exp(entropy of λ_i)
}

// DefaultConfig is LCA-Gauss with the full metric, every row and neighbour, to convergence.
func DefaultConfig() Config {
	return Config{
		Kind: KindLCAGauss, Metric: MetricFull, Preset: PresetMetric, Nu: Auto, NuGaussian: Auto, NuUnit: UnitAuto, Kernel: KernelAuto,
		Precision: Float64, NearCopies: true, Coordinates: CoordinatesAligned, Components: ComponentsAll, Seed: 1,
	}
}

// Validate reports every fault at once (errors.Join), each with the field's name and its range.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("lca: fit: "+format, args...))
		}
	}
	finite := func(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }
	check(kindNames[c.Kind] != "", "unknown Kind %d", c.Kind)
	check(metricNames[c.Metric] != "", "unknown Metric %d", c.Metric)
	check(c.Metric != MetricLowRank || c.Rank >= 1, "Rank is %d, want at least 1 for the low_rank metric", c.Rank)
	check(presetNames[c.Preset] != "", "unknown Preset %d", c.Preset)
	check(c.Nu == Auto || finite(c.Nu), "Nu is %v, want Auto or a finite number ≥ 0", c.Nu)
	check(c.NuGaussian == Auto || finite(c.NuGaussian), "NuGaussian is %v, want Auto or a finite number ≥ 0", c.NuGaussian)
	check(unitNames[c.NuUnit] != "", "unknown NuUnit %d", c.NuUnit)
	check(kernelNames[c.Kernel] != "", "unknown Kernel %d", c.Kernel)
	check(c.DOF >= 0 && c.DOF <= MostDOF, "DOF is %d, want 0 (the default) … %d", c.DOF, MostDOF)
	check(c.MaxIter >= 0, "MaxIter is %d, want 0 (to convergence) or more", c.MaxIter)
	check(!math.IsNaN(c.Tol) && (c.Tol >= 0 || c.MaxIter > 0), "Tol is %v, which never converges: set MaxIter", c.Tol)
	check(c.Minibatch >= 0, "Minibatch is %d, want 0 (all) or more", c.Minibatch)
	check(c.Neighbours >= 0, "Neighbours is %d, want 0 (all) or more", c.Neighbours)
	check(c.Gamma >= 0 && c.Gamma < 1, "Gamma is %v, want 0 ≤ γ < 1", c.Gamma)
	check(c.Near == nil || c.Minibatch == 0 && c.Neighbours == 0, "Near is set, and rows or neighbours are sampled")
	check(c.TargetRows >= 0, "TargetRows is %d, want 0 (off) or more", c.TargetRows)
	check(c.Precision == 0 || precisionNames[c.Precision] != "", "unknown Precision %d", c.Precision)
	check(coordinatesNames[c.Coordinates] != "", "unknown Coordinates %d", c.Coordinates)
	check(componentsNames[c.Components] != "", "unknown Components %d", c.Components)
	return errors.Join(faults...)
}

// mostIterations ends a fit that converges too slowly: EM converges linearly, and at a rate that needs more steps
// than this the gain is invisible.
const mostIterations = 10_000

// resolved replaces Auto and the zeros that stand for a default by their values.
func (c Config) resolved() Config {
	c.Kind = c.Kind.Resolve()
	c.Nu, c.NuGaussian, c.NuUnit = c.Preset.Resolve(c.Nu, c.NuGaussian, c.NuUnit)
	c.Kernel, c.DOF = c.Kernel.Resolve(c.DOF)
	if c.Tol == 0 {
		c.Tol = 1e-6
	}
	if c.MaxIter == 0 {
		c.MaxIter = mostIterations
	}
	return c
}
