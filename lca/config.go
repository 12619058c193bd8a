package lca

import (
	"errors"
	"fmt"
	"math"
)

// Kind names the model of the paper that is fitted.
type Kind uint8

// The models of the paper; the zero value is invalid on purpose.
const (
	KindLCA         Kind = iota + 1 // one full Parzen metric, section 3
	KindLCAGauss                    // Parzen part times Gaussian part, section 4
	KindLCAGaussRed                 // LCA-Gauss, then the dichotomic search of section 4
	KindGaussian                    // a single Gaussian: the baseline of section 6.2
)

var kindNames = map[Kind]string{KindLCA: "lca", KindLCAGauss: "lca_gauss", KindLCAGaussRed: "lca_gauss_red", KindGaussian: "gaussian"}

// String returns the name that the configuration uses, such as "lca_gauss".
func (k Kind) String() string { return nameOf(kindNames, k) }

// ParseKind is the inverse of Kind.String.
func ParseKind(s string) (Kind, error) { return valueOf(kindNames, s, "model") }

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

// Unit says what ν is measured in.
type Unit uint8

// Units of ν.
const (
	UnitRelative Unit = iota + 1 // multiples of the mean working variance
	UnitAbsolute                 // the paper's: squared units of the input, no column scaling
)

var unitNames = map[Unit]string{UnitRelative: "relative", UnitAbsolute: "absolute"}

// String returns the name that the configuration uses.
func (u Unit) String() string { return nameOf(unitNames, u) }

// ParseUnit is the inverse of Unit.String.
func ParseUnit(s string) (Unit, error) { return valueOf(unitNames, s, "nu_unit") }

// Preset chooses ν and ν_g where they are left to Auto.
type Preset uint8

// Presets: for clustering and neighbours, or for density scores.
const (
	PresetMetric  Preset = iota + 1 // ν = 0.1: keeps low-variance directions from being blown up
	PresetDensity                   // ν = 1e-2: the sharpest density
)

var presetNames = map[Preset]string{PresetMetric: "metric", PresetDensity: "density"}

// String returns the name that the configuration uses.
func (p Preset) String() string { return nameOf(presetNames, p) }

// ParsePreset is the inverse of Preset.String.
func ParsePreset(s string) (Preset, error) { return valueOf(presetNames, s, "preset") }

// PoolKind is the rule by which a stream's rows become neighbours.
type PoolKind uint8

// The pools. PoolBiased is what "auto" means.
const (
	PoolBiased    PoolKind = iota + 1 // enters with p = 0.3, replaces a random slot
	PoolSliding                       // the newest N rows
	PoolReservoir                     // a uniform sample of all rows so far
)

var poolNames = map[PoolKind]string{PoolBiased: "biased", PoolSliding: "sliding", PoolReservoir: "reservoir"}

// String returns the name that the configuration uses.
func (p PoolKind) String() string { return nameOf(poolNames, p) }

// ParsePoolKind is the inverse of PoolKind.String; it also takes "auto".
func ParsePoolKind(s string) (PoolKind, error) {
	if s == "auto" {
		return PoolBiased, nil
	}
	return valueOf(poolNames, s, "pool")
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

// Components says which part of the metric y carries.
type Components uint8

// The parts.
const (
	ComponentsAll    Components = iota + 1
	ComponentsParzen            // the paper's unsupervised dimension reduction; y keeps d columns
)

var componentsNames = map[Components]string{ComponentsAll: "all", ComponentsParzen: "parzen"}

// String returns the name that the configuration uses.
func (c Components) String() string { return nameOf(componentsNames, c) }

// ParseComponents is the inverse of Components.String.
func ParseComponents(s string) (Components, error) { return valueOf(componentsNames, s, "components") }

// Auto leaves a number of Config to the defaults described at its field.
const Auto = -1

// Config is everything that decides what a Learner learns. Start from DefaultConfig.
type Config struct {
	Dim    int    // number of columns d, ≥ 1
	Kind   Kind   // default KindLCAGauss
	Metric Metric // default MetricFull
	Rank   int    // rank of MetricLowRank, 1 ≤ Rank < Dim; 0 otherwise

	Preset     Preset  // default PresetMetric
	Nu         float64 // ν of the Parzen part; Auto: by preset (metric 0.1, density 1e-2); else ≥ 0
	NuGaussian float64 // ν_g of the Gaussian part; Auto: 1e-3 (see presets); else ≥ 0
	NuUnit     Unit    // default UnitRelative

	Gamma        float64 // γ of γ^(B/n), 0 ≤ γ < 1; default 0.6
	PassRows     int     // n of γ^(B/n), rows; Auto: grows with the rows learnt (see growth.go)
	PassRowsCap  int     // upper bound of the growing n, rows; default 3000
	HalfLifeRows int     // n said as a half-life, rows; 0 = off
	Minibatch    int     // B, rows of each Learn; default 100
	Neighbours   int     // N, the pool's size, rows; default 3000, at least 10·Dim is advised
	Pool         PoolKind
	TargetRows   int // rows the kernel width is corrected to, (N/target)^{2/(d_P+4)}; 0 = off

	WarmupRows  int     // rows before the first update; Auto: max(4·Dim, 200), twice as many with PresetDensity
	InnerSteps  int     // EM steps a minibatch; Auto: 2 for the first 2000 rows, then 1, and to convergence on the pool while it fills (rehearse.go)
	OutlierGate float64 // largest squared kernel distance to the nearest neighbour that still learns; Auto: twenty standard deviations by C_G (gate.go); +Inf = off
	NearCopies  bool    // leave near copies out of the neighbours; default true (false for discrete data)
	Drift       bool    // follow a change: set odd minibatches aside and start again from them when they are many (renew.go); default true
	DriftRows   int     // rows for which a change must last; Auto: the warm-up's, and max(1000, min(100·Dim, Neighbours)) with PresetDensity
	Finite      bool    // the rows are a finite set, such as a replayed range: μ and C_G forget nothing, and there is no drift; default false

	Precision   Precision // default Float32
	Coordinates Coordinates
	Components  Components
	Seed        uint64 // default 1
}

// DefaultConfig is the configuration for a stream of dim columns; doc.go says where it departs from the paper.
func DefaultConfig(dim int) Config {
	return Config{
		Dim: dim, Kind: KindLCAGauss, Metric: MetricFull,
		Preset: PresetMetric, Nu: Auto, NuGaussian: Auto, NuUnit: UnitRelative,
		Gamma: 0.6, PassRows: Auto, PassRowsCap: 3000, Minibatch: 100, Neighbours: 3000, Pool: PoolBiased,
		WarmupRows: Auto, InnerSteps: Auto, OutlierGate: Auto, NearCopies: true, Drift: true, DriftRows: Auto,
		Precision: Float32, Coordinates: CoordinatesAligned, Components: ComponentsAll, Seed: 1,
	}
}

// Validate reports every fault at once (errors.Join), each with the field's name and its range.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("lca: "+format, args...))
		}
	}
	check(c.Dim >= 1, "Dim is %d, want at least 1", c.Dim)
	check(kindNames[c.Kind] != "" && c.Kind != KindGaussian, "Kind %v cannot be learnt from a stream", c.Kind)
	check(metricNames[c.Metric] != "", "unknown Metric %d", c.Metric)
	check(c.Metric != MetricLowRank || (c.Rank >= 1 && c.Rank < c.Dim), "Rank is %d, want 1 … %d for the low_rank metric", c.Rank, c.Dim-1)
	check(presetNames[c.Preset] != "", "unknown Preset %d", c.Preset)
	check(c.Nu == Auto || (c.Nu >= 0 && !math.IsInf(c.Nu, 0)), "Nu is %v, want Auto or a finite number ≥ 0", c.Nu)
	check(c.NuGaussian == Auto || (c.NuGaussian >= 0 && !math.IsInf(c.NuGaussian, 0)), "NuGaussian is %v, want Auto or a finite number ≥ 0", c.NuGaussian)
	check(unitNames[c.NuUnit] != "", "unknown NuUnit %d", c.NuUnit)
	check(c.Gamma >= 0 && c.Gamma < 1, "Gamma is %v, want 0 ≤ γ < 1", c.Gamma)
	check(c.PassRows == Auto || c.PassRows >= 1, "PassRows is %d, want Auto or at least 1", c.PassRows)
	check(c.PassRowsCap >= 1, "PassRowsCap is %d, want at least 1", c.PassRowsCap)
	check(c.HalfLifeRows >= 0, "HalfLifeRows is %d, want at least 0", c.HalfLifeRows)
	check(c.Minibatch >= 1, "Minibatch is %d, want at least 1", c.Minibatch)
	check(c.Neighbours >= 2, "Neighbours is %d, want at least 2", c.Neighbours)
	check(poolNames[c.Pool] != "", "unknown Pool %d", c.Pool)
	check(c.TargetRows >= 0, "TargetRows is %d, want at least 0", c.TargetRows)
	check(c.WarmupRows == Auto || c.WarmupRows >= 2, "WarmupRows is %d, want Auto or at least 2", c.WarmupRows)
	check(c.InnerSteps == Auto || c.InnerSteps >= 1, "InnerSteps is %d, want Auto or at least 1", c.InnerSteps)
	check(c.DriftRows == Auto || c.DriftRows >= 1, "DriftRows is %d, want Auto or at least 1", c.DriftRows)
	check(c.OutlierGate == Auto || c.OutlierGate > 0, "OutlierGate is %v, want Auto or a number > 0", c.OutlierGate)
	check(precisionNames[c.Precision] != "", "unknown Precision %d", c.Precision)
	check(coordinatesNames[c.Coordinates] != "", "unknown Coordinates %d", c.Coordinates)
	check(componentsNames[c.Components] != "", "unknown Components %d", c.Components)
	return errors.Join(faults...)
}

func nameOf[K ~uint8](names map[K]string, k K) string {
	if s, ok := names[k]; ok {
		return s
	}
	return fmt.Sprintf("invalid(%d)", uint8(k)) // with K's own String this would call itself
}

func valueOf[K comparable](names map[K]string, s, what string) (K, error) {
	for k, name := range names {
		if name == s {
			return k, nil
		}
	}
	var zero K
	return zero, fmt.Errorf("lca: unknown %s %q", what, s)
}
