package online

import (
	"fmt"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/state"
)

// recipe are the settings that the data may choose: they are part of what is learnt.
type recipe struct {
	nu     float64
	unit   lca.Unit
	kernel lca.Kernel
	dof    int // degrees of freedom; 0 unless the kernel is a t
}

// freedom says which settings are left to the data. A setting that was given is obeyed.
type freedom struct {
	red              bool // d_P, by the search of LCA-Gauss-Red
	affine           bool // the unit of ν for this search, with lca.PresetMetric
	gaussian         bool // no Parzen direction at all
	nu, unit, kernel bool
}

// freedom returns what the configuration leaves open, given as it was before Auto was replaced. With
// lca.PresetMetric only d_P is, because a likelihood says little about clusters.
func (c Config) freedom() freedom {
	if c.Plain || c.Gamma == 0 {
		return freedom{} // the caller counts the steps
	}
	density := c.Preset == lca.PresetDensity
	searched := c.Metric == lca.MetricFull && (c.Kind == lca.KindAuto || c.Kind == lca.KindLCAGaussRed)
	return freedom{
		red:      searched,
		affine:   searched && !density && c.NuUnit == lca.UnitAuto,
		gaussian: density && c.Metric == lca.MetricFull && c.Kind != lca.KindLCA,
		nu:       density && c.Nu == lca.Auto,
		unit:     density && c.NuUnit == lca.UnitAuto,
		kernel:   density && c.Kernel == lca.KernelAuto,
	}
}

// any reports whether something is open.
func (f freedom) any() bool { return f != freedom{} }

// recipes returns what the open settings can become, other than r; dof are the degrees of freedom of t kernels, 0 for the default.
func (f freedom) recipes(r recipe, dof int) (out []recipe) {
	if !f.kernel {
		dof = r.dof
	}
	nus, units, kernels := []float64{r.nu}, []lca.Unit{r.unit}, []lca.Kernel{r.kernel}
	if f.nu {
		nus = []float64{0.001, 0.01, 0.1}
	}
	if f.unit {
		units = []lca.Unit{lca.UnitCovariance, lca.UnitRelative}
	}
	if f.kernel {
		kernels = []lca.Kernel{lca.KernelGaussian, lca.KernelStudent}
	}
	for _, kernel := range kernels {
		for _, unit := range units {
			for _, nu := range nus {
				other := recipe{nu: nu, unit: unit}
				other.kernel, other.dof = kernel.Resolve(dof)
				if other != r {
					out = append(out, other)
				}
			}
		}
	}
	return out
}

// String names the settings as a trial is named.
func (r recipe) String() string { return fmt.Sprintf("nu %v %v, %v", r.nu, r.unit, r.kernel) }

// recipe returns the current settings.
func (c Config) recipe() recipe { return recipe{c.Nu, c.NuUnit, c.Kernel, c.DOF} }

// fields passes the settings that the data may choose to a state or from one.
func (r *recipe) fields(f *state.Fields) {
	f.F64(&r.nu)
	state.Numbers(f, &r.unit)
	state.Numbers(f, &r.kernel)
	state.Numbers(f, &r.dof)
	f.Check(r.nu >= 0 && known(r.unit, lca.ParseUnit) && known(r.kernel, lca.ParseKernel) && r.dof >= 0 && r.dof <= lca.MostDOF &&
		(r.kernel == lca.KernelStudent) == (r.dof > 0), "settings %+v", *r)
}
