package lca

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
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

// Kind names the model of the paper that is fitted.
type Kind uint8

// The models of the paper; the zero value is invalid on purpose.
const (
	KindLCA         Kind = iota + 1 // one full Parzen metric, section 3
	KindLCAGauss                    // Parzen part times Gaussian part, section 4
	KindLCAGaussRed                 // LCA-Gauss, then the dichotomic search of section 4
	KindGaussian                    // a single Gaussian: the baseline of section 6.2
	KindAuto                        // KindLCAGauss; a stream also searches as KindLCAGaussRed does, in the background
)

var kindNames = map[Kind]string{KindLCA: "lca", KindLCAGauss: "lca_gauss", KindLCAGaussRed: "lca_gauss_red", KindGaussian: "gaussian", KindAuto: "auto"}

// String returns the name that the configuration uses, such as "lca_gauss".
func (k Kind) String() string { return nameOf(kindNames, k) }

// ParseKind is the inverse of Kind.String.
func ParseKind(s string) (Kind, error) { return valueOf(kindNames, s, "model") }

// Kinds returns every Kind, in the order of the constants.
func Kinds() []Kind { return valuesOf(kindNames) }

// Resolve replaces KindAuto by the model that it stands for.
func (k Kind) Resolve() Kind {
	if k == KindAuto {
		return KindLCAGauss
	}
	return k
}

// Metric is the family that the Parzen covariance Σ is confined to (sections 3, 5 and 6.2).
type Metric uint8

// The metrics; each has an exact M-step.
const (
	MetricFull Metric = iota + 1
	MetricDiagonal
	MetricIsotropic
	MetricLowRank // low rank + σ²I: probabilistic PCA of C_L
)

var metricNames = map[Metric]string{MetricFull: "full", MetricDiagonal: "diagonal", MetricIsotropic: "isotropic", MetricLowRank: "low_rank"}

// String returns the name that the configuration uses, such as "low_rank".
func (m Metric) String() string { return nameOf(metricNames, m) }

// ParseMetric is the inverse of Metric.String.
func ParseMetric(s string) (Metric, error) { return valueOf(metricNames, s, "metric") }

// Metrics returns every Metric, in the order of the constants.
func Metrics() []Metric { return valuesOf(metricNames) }

// Unit says what ν is measured in, and so what it is a multiple of.
type Unit uint8

// Units of ν.
const (
	UnitRelative   Unit = iota + 1 // multiples of the mean working variance: ν diag(s²)
	UnitAbsolute                   // the paper's: squared units of the input, no column scaling
	UnitCovariance                 // multiples of the rows' own covariance, ν C_G: no score changes with the basis
	UnitAuto                       // by preset: covariance with PresetDensity, relative with PresetMetric
)

var unitNames = map[Unit]string{UnitRelative: "relative", UnitAbsolute: "absolute", UnitCovariance: "covariance", UnitAuto: "auto"}

// String returns the name that the configuration uses.
func (u Unit) String() string { return nameOf(unitNames, u) }

// ParseUnit is the inverse of Unit.String.
func ParseUnit(s string) (Unit, error) { return valueOf(unitNames, s, "nu_unit") }

// Units returns every Unit, in the order of the constants.
func Units() []Unit { return valuesOf(unitNames) }

// Preset chooses ν, ν_g and their unit where they are left to Auto and UnitAuto.
type Preset uint8

// Presets: for clustering and neighbours, or for density scores.
const (
	PresetMetric  Preset = iota + 1 // ν = 0.1: keeps low-variance directions from being blown up
	PresetDensity                   // ν = 1e-2 of C_G: the sharpest density
)

var presetNames = map[Preset]string{PresetMetric: "metric", PresetDensity: "density"}

// String returns the name that the configuration uses.
func (p Preset) String() string { return nameOf(presetNames, p) }

// ParsePreset is the inverse of Preset.String.
func ParsePreset(s string) (Preset, error) { return valueOf(presetNames, s, "preset") }

// Presets returns every Preset, in the order of the constants.
func Presets() []Preset { return valuesOf(presetNames) }

// Resolve replaces Auto and UnitAuto by the ν, ν_g and unit that the preset stands for.
func (p Preset) Resolve(nu, nuGaussian float64, unit Unit) (float64, float64, Unit) {
	if nu == Auto {
		nu = 0.1
		if p == PresetDensity {
			nu = 1e-2
		}
	}
	if nuGaussian == Auto {
		nuGaussian = 1e-3
	}
	if unit == UnitAuto {
		unit = UnitRelative
		if p == PresetDensity {
			unit = UnitCovariance
		}
	}
	return nu, nuGaussian, unit
}

// Kernel is the shape of the bell around each neighbour.
type Kernel uint8

// The kernels.
const (
	KernelGaussian Kernel = iota + 1 // the paper's
	KernelStudent                    // Student's t: a far pair pulls with bounded force, so outliers and heavy tails do not widen it
	KernelAuto                       // KernelGaussian
)

var kernelNames = map[Kernel]string{KernelGaussian: "gaussian", KernelStudent: "student", KernelAuto: "auto"}

// String returns the name that the configuration uses.
func (k Kernel) String() string { return nameOf(kernelNames, k) }

// ParseKernel is the inverse of Kernel.String.
func ParseKernel(s string) (Kernel, error) { return valueOf(kernelNames, s, "kernel") }

// Kernels returns every Kernel, in the order of the constants.
func Kernels() []Kernel { return valuesOf(kernelNames) }

// DegreesOfFreedom are those of KernelStudent unless set otherwise.
const DegreesOfFreedom = 4

// MostDOF bounds the degrees of freedom: a t with more is a Gaussian, and a power of many factors rounds as often.
const MostDOF = 1000

// Resolve replaces KernelAuto, and 0 degrees of freedom, by what they stand for; only KernelStudent has any.
func (k Kernel) Resolve(dof int) (Kernel, int) {
	switch {
	case k != KernelStudent:
		return KernelGaussian, 0
	case dof == 0:
		return k, DegreesOfFreedom
	}
	return k, dof
}

// Precision is the arithmetic of the E-step; C_L, C_G, the mean and all factors are float64 always.
type Precision uint8

// Precisions of the E-step.
const (
	Float32 Precision = iota + 1
	Float64
)

var precisionNames = map[Precision]string{Float32: "float32", Float64: "float64"}

// String returns the name that the configuration uses.
func (p Precision) String() string { return nameOf(precisionNames, p) }

// ParsePrecision is the inverse of Precision.String.
func ParsePrecision(s string) (Precision, error) { return valueOf(precisionNames, s, "precision") }

// Precisions returns every Precision, in the order of the constants.
func Precisions() []Precision { return valuesOf(precisionNames) }

// Coordinates is the rotation of y that is chosen; all give the same distances (metric M = B Bᵀ).
type Coordinates uint8

// The coordinates y = O M^½ (x−μ).
const (
	CoordinatesAligned    Coordinates = iota + 1 // Procrustes rotation towards the predecessor: fixed points hardly move
	CoordinatesComponents                        // y = (B_L, B_G)ᵀ(x−μ), Parzen first, by e ascending
	CoordinatesSymmetric                         // y = M^½(x−μ): needs no history
)

var coordinatesNames = map[Coordinates]string{CoordinatesAligned: "aligned", CoordinatesComponents: "components", CoordinatesSymmetric: "symmetric"}

// String returns the name that the configuration uses.
func (c Coordinates) String() string { return nameOf(coordinatesNames, c) }

// ParseCoordinates is the inverse of Coordinates.String.
func ParseCoordinates(s string) (Coordinates, error) {
	return valueOf(coordinatesNames, s, "coordinates")
}

// AllCoordinates returns every Coordinates, in the order of the constants.
func AllCoordinates() []Coordinates { return valuesOf(coordinatesNames) }

// Components says which part of the metric y carries.
type Components uint8

// The parts.
const (
	ComponentsAll      Components = iota + 1
	ComponentsParzen              // the paper's unsupervised dimension reduction; y keeps d columns
	ComponentsWeighted            // each direction by √(1−e), so that one as wide for neighbours as for strangers has no weight
)

var componentsNames = map[Components]string{ComponentsAll: "all", ComponentsParzen: "parzen", ComponentsWeighted: "weighted"}

// String returns the name that the configuration uses.
func (c Components) String() string { return nameOf(componentsNames, c) }

// ParseComponents is the inverse of Components.String.
func ParseComponents(s string) (Components, error) { return valueOf(componentsNames, s, "components") }

// AllComponents returns every Components, in the order of the constants.
func AllComponents() []Components { return valuesOf(componentsNames) }

// Auto leaves a number of Config to the defaults described at its field.
const Auto = -1

func nameOf[K ~uint8](names map[K]string, k K) string {
	if s, ok := names[k]; ok {
		return s
	}
	return fmt.Sprintf("invalid(%d)", uint8(k)) // with K's own String this would call itself
}

func valuesOf[K ~uint8](names map[K]string) []K { return slices.Sorted(maps.Keys(names)) }

func valueOf[K ~uint8](names map[K]string, s, what string) (K, error) {
	for k, name := range names {
		if name == s {
			return k, nil
		}
	}
	all := make([]string, 0, len(names))
	for _, k := range valuesOf(names) {
		all = append(all, names[k])
	}
	return 0, fmt.Errorf("lca: unknown %s %q: want one of %s", what, s, strings.Join(all, ", "))
}
