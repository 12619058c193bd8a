package online

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// Config is everything that decides what a Learner learns. Start from DefaultConfig.
type Config struct {
	Dim    int        // number of columns d, ≥ 1
	Kind   lca.Kind   // default KindAuto
	Metric lca.Metric // default MetricFull
	Rank   int        // rank of MetricLowRank, 1 ≤ Rank < Dim; 0 otherwise

	Preset     lca.Preset // default PresetMetric
	Nu         float64    // ν of the Parzen part; Auto: by preset (metric 0.1, density 1e-2); else ≥ 0
	NuGaussian float64    // ν_g of the Gaussian part; Auto: 1e-3 (see presets); else ≥ 0
	NuUnit     lca.Unit   // default UnitAuto: by preset

	Kernel lca.Kernel // default KernelAuto
	DOF    int        // degrees of freedom of KernelStudent; 0: lca.DegreesOfFreedom

	Gamma       float64 // γ of γ^(B/n), 0 ≤ γ < 1; default 0.6
	PassRows    int     // n of γ^(B/n), rows; Auto: grows with the rows learnt
	PassRowsCap int     // upper bound of the growing n, rows; default 3000
	Minibatch   int     // B, rows of each Learn; default 100
	Neighbours  int     // N, the pool's size, rows; default 3000, at least 10·Dim is advised

	WarmupRows  int     // rows before the first update; Auto: max(4·Dim, 200), twice as many with PresetDensity, or Dim + 500 (wide.go); more where a column is slow (warmup.go)
	Plain       bool    // one step of equation 8 for each minibatch and no more: no EM over the pool (rehearse.go), and nothing is chosen; implied by γ = 0; default false
	OutlierGate float64 // largest squared kernel distance to the nearest neighbour that still learns; Auto: by the scores of the pool (gate.go); +Inf = off
	Drift       bool    // follow a change: learn what is unusual once that has lasted (holds.go, restart.go); without it only what someone accepts; default true
	DriftRows   int     // rows for which a change must last; Auto: the warm-up's, and max(1000, min(100·Dim, Neighbours)) with PresetDensity
	AcceptRows  int     // rows for which a series must be unusual until that is learnt (holds.go), ≥ 1; Auto: by preset, metric 1000 rows, density a week
	AcceptSpan  int64   // the same in ms by the stamps of its rows, and at least 200 of them; 0: AcceptRows counts
	Finite      bool    // the rows are a finite set without an order, such as a file: μ and C_G forget nothing, and after a change that lasts both parts are learnt (learner.go); default false

	Recent bool // learn what scores the last rows of a series (package recent); not done beyond recent.MostColumns columns; default true

	Precision  lca.Precision // default Float32; in Float64 a step is one of EM to ten digits (TestLearnIsOneStep)
	Components lca.Components
	Unaligned  bool // no model is asked for in aligned coordinates: see Frozen.ModelIn; default false
}

// DefaultConfig is the configuration for a stream of dim columns; doc.go says where it departs from the paper.
func DefaultConfig(dim int) Config {
	return Config{
		Dim: dim, Kind: lca.KindAuto, Metric: lca.MetricFull,
		Preset: lca.PresetMetric, Nu: lca.Auto, NuGaussian: lca.Auto, NuUnit: lca.UnitAuto, Kernel: lca.KernelAuto,
		Gamma: 0.6, PassRows: lca.Auto, PassRowsCap: 3000, Minibatch: 100, Neighbours: 3000,
		WarmupRows: lca.Auto, OutlierGate: lca.Auto, Drift: true, DriftRows: lca.Auto, AcceptRows: lca.Auto,
		Recent: true, Precision: lca.Float32, Components: lca.ComponentsAll,
	}
}

// Fit returns the configuration of a batch fit of the same model. It is plain EM on every row;
// set Minibatch, Neighbours and Gamma to sample as the stream does.
func (c Config) Fit() lca.Config {
	f := lca.DefaultConfig()
	f.Kind, f.Metric, f.Rank = c.Kind, c.Metric, c.Rank
	f.Preset, f.Nu, f.NuGaussian, f.NuUnit = c.Preset, c.Nu, c.NuGaussian, c.NuUnit
	f.Kernel, f.DOF = c.Kernel, c.DOF
	f.Components = c.Components
	return f
}

// resolved replaces Auto, where it does not depend on the rows, by what a learner begins with.
func (c Config) resolved() Config {
	c.Kind = c.Kind.Resolve()
	c.Nu, c.NuGaussian, c.NuUnit = c.Preset.Resolve(c.Nu, c.NuGaussian, c.NuUnit)
	c.Kernel, c.DOF = c.Kernel.Resolve(c.DOF)
	return c
}

// shape is that of the kernels, once the configuration is resolved.
func (c Config) shape() kernel.Shape { return kernel.Shape{DOF: c.DOF} }

// Validate reports every fault at once (errors.Join), each with the field's name and its range.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("lca: "+format, args...))
		}
	}
	check(c.Dim >= 1, "Dim is %d, want at least 1", c.Dim)
	check(slices.Contains(Kinds(), c.Kind), "Kind %v cannot be learnt from a stream", c.Kind)
	check(known(c.Metric, lca.ParseMetric), "unknown Metric %d", c.Metric)
	check(c.Metric != lca.MetricLowRank || (c.Rank >= 1 && c.Rank < c.Dim), "Rank is %d, want 1 … %d for the low_rank metric", c.Rank, c.Dim-1)
	check(known(c.Preset, lca.ParsePreset), "unknown Preset %d", c.Preset)
	check(c.Nu == lca.Auto || (c.Nu >= 0 && !math.IsInf(c.Nu, 0)), "Nu is %v, want Auto or a finite number ≥ 0", c.Nu)
	check(c.NuGaussian == lca.Auto || (c.NuGaussian >= 0 && !math.IsInf(c.NuGaussian, 0)), "NuGaussian is %v, want Auto or a finite number ≥ 0", c.NuGaussian)
	check(known(c.NuUnit, lca.ParseUnit), "unknown NuUnit %d", c.NuUnit)
	check(known(c.Kernel, lca.ParseKernel), "unknown Kernel %d", c.Kernel)
	check(c.DOF >= 0 && c.DOF <= lca.MostDOF, "DOF is %d, want 0 (the default) … %d", c.DOF, lca.MostDOF)
	check(c.Gamma >= 0 && c.Gamma < 1, "Gamma is %v, want 0 ≤ γ < 1", c.Gamma)
	check(c.PassRows == lca.Auto || c.PassRows >= 1, "PassRows is %d, want Auto or at least 1", c.PassRows)
	check(c.PassRowsCap >= 1, "PassRowsCap is %d, want at least 1", c.PassRowsCap)
	check(c.Minibatch >= 1, "Minibatch is %d, want at least 1", c.Minibatch)
	check(c.Neighbours >= 2, "Neighbours is %d, want at least 2", c.Neighbours)
	check(c.WarmupRows == lca.Auto || c.WarmupRows >= 2, "WarmupRows is %d, want Auto or at least 2", c.WarmupRows)
	check(c.DriftRows == lca.Auto || c.DriftRows >= 1, "DriftRows is %d, want Auto or at least 1", c.DriftRows)
	check(c.AcceptRows == lca.Auto || c.AcceptRows >= 1, "AcceptRows is %d, want Auto or at least 1", c.AcceptRows)
	check(c.AcceptSpan >= 0, "AcceptSpan is %d, want at least 0", c.AcceptSpan)
	check(c.OutlierGate == lca.Auto || c.OutlierGate > 0, "OutlierGate is %v, want Auto or a number > 0", c.OutlierGate)
	check(known(c.Precision, lca.ParsePrecision), "unknown Precision %d", c.Precision)
	check(known(c.Components, lca.ParseComponents), "unknown Components %d", c.Components)
	return errors.Join(faults...)
}

// Kinds returns the models that can be learnt from a stream.
func Kinds() []lca.Kind {
	return slices.DeleteFunc(lca.Kinds(), func(k lca.Kind) bool { return k == lca.KindGaussian })
}

// known says whether a value is one that has a name.
func known[K fmt.Stringer](k K, parse func(string) (K, error)) bool {
	_, err := parse(k.String())
	return err == nil
}

const (
	// The growing n is this share of the rows learnt since the start or the last alarm. The step
	// 1−γ^(B/n) is then about 4B/rows: early rows, learnt under a metric that was still wide, are
	// forgotten polynomially, and no n has to be known beforehand.
	growthShare = 1.0 / 8
	// With a memory of fewer rows than this, or than 2.6 per dimension, C_L would be an average of too few.
	shortestMemory        = 50
	shortestMemoryColumns = 2.6
)

// memory returns the current n of γ^(B/n), in rows (section 5.1): PassRows where it is set, and
// otherwise clip(rows/8, max(50, 2.6·d), PassRowsCap).
//
// With a time gap both bounds are gap times as large, because they are meant for independent rows. But the lower one is
// at most half of the rows so far, which weighs all of them alike, and the upper one at most the memory of μ and C_G.
func (c Config) memory(rows, gap uint64) float64 {
	if c.PassRows != lca.Auto {
		return float64(c.PassRows)
	}
	lo := max(shortestMemory, shortestMemoryColumns*float64(c.Dim))
	hi := max(float64(c.PassRowsCap), lo)
	if gap > 1 {
		lo = max(lo, min(lo*float64(gap), 0.5*float64(rows)))
		hi = max(hi, lo, min(hi*float64(gap), 0.5*c.momentsMemory()))
	}
	return min(max(growthShare*float64(rows), lo), hi)
}

// grows says whether n still grows.
func (c Config) grows(rows, gap uint64) bool {
	return c.memory(rows, gap) < c.memory(math.MaxUint64, gap)
}

// discount returns γ^(B/n), the weight that C_L keeps when B rows are learnt (eq. 8, section 5.1).
func (c Config) discount(b int, n float64) float64 {
	if c.Gamma == 0 {
		return 0
	}
	return math.Pow(c.Gamma, float64(b)/n)
}
