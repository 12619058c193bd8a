package lca

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// Maximize is the M-step (Proposition 1, or eq. 5 for plain LCA) from the statistics of all rows under m, in one or more parts: the next model. Its
// μ, C_G and C_L are those of the rows, γ is 0, and its kind, metric, kernel, ν, ν_g and the scales of the columns are those of m. A model of LCA-Gauss-Red keeps its
// number of Parzen directions, which a search has found. Its neighbours are the candidates, which after the first step no longer
// change: from then on each step is one of [Fit] on the rows, whose neighbours are a sample of them, or all.
//
// In Info are the NLL of m over the rows, without near copies, that of a single Gaussian, and the sums' rows, copies and effective neighbours. Rows counts
// those of m too, so that it grows from step to step.
func (m *Model) Maximize(parts []*Statistics) (*Model, error) {
	s, pool, err := m.fold(parts)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Rows < 2:
		return nil, fmt.Errorf("lca: the statistics are of %d rows (%d invalid), want at least 2", s.Rows, s.Invalid)
	case s.Used == 0:
		return nil, errors.New("lca: in this metric every row is a near copy of all neighbours, or has none: begin with a model of more rows")
	case len(pool) == 0:
		return nil, errors.New("lca: the statistics have no candidates for neighbours")
	}
	w, err := m.working()
	if err != nil {
		return nil, err
	}
	in := prop1.Parts{BL: w.directionsIn(m.BL), BG: w.directionsIn(m.BG), Ratio: m.Ratio}
	global, err := unwhitened(covariance(s.Scatter, len(s.Mean), 1/float64(s.Rows)), in)
	if err != nil {
		return nil, err
	}
	local, err := unwhitened(covariance(s.Local, len(s.Mean), 1/float64(s.Used)), in)
	if err != nil {
		return nil, err
	}
	if err := w.move(s.Mean, in); err != nil {
		return nil, err
	}
	c, err := m.config()
	if err != nil {
		return nil, err
	}
	f, err := fittingOf(w, global, int(s.Rows), c)
	if err != nil {
		return nil, err
	}
	next, err := f.maximized(m, local)
	if err != nil {
		return nil, err
	}
	out := f.out(next, Info{
		Rows: m.Info.Rows + s.Rows, Learnt: s.Rows, NLL: s.NLL / float64(s.Used), GaussianNLL: f.gaussianNLL(global),
		Minibatch: int(s.Rows), PassRows: float64(s.Rows), Copies: s.Copies, Effective: s.Effective / float64(s.Used),
	})
	for _, c := range pool {
		for k, v := range c.X {
			out.Neighbours = append(out.Neighbours, float32(v-out.Mean[k]))
		}
	}
	out.ScoreNeighbours(Admissible{})
	return out, nil
}

// maximized is the M-step for a local covariance.
func (f *fitting) maximized(m *Model, local *mat.SymDense) (state, error) {
	if m.Parzen() == 0 { // nothing local is left to learn
		return f.noParzen(), nil
	}
	parzen := Auto
	if m.Kind == KindLCAGaussRed {
		parzen = m.Parzen()
	}
	b, sigma, err := f.solver.Solve(f.cg, f.ig, f.pull.Add(local, f.Nu), parzen)
	if err != nil {
		return state{}, fmt.Errorf("lca: maximize (raise ν in the first model, leave out rows that are far from all others, or sum in float64): %w", err)
	}
	if prop1.Columns(b.BL) == 0 {
		return f.noParzen(), nil
	}
	return state{Parts: b, CL: sigma}, nil
}

// gaussianNLL is the NLL of a single Gaussian over rows of that C_G: ½ tr M₁⁻¹C_G in place of the mean of ½|I_G(x−μ)|².
func (f *fitting) gaussianNLL(global *mat.SymDense) float64 {
	var left, all mat.Dense
	linalg.Mul(&left, f.ig, global)
	linalg.Mul(&all, &left, f.ig)
	return normaliser(f.noParzen().Parts, f.shape()) + f.logScale() + 0.5*mat.Trace(&all)
}

// config returns the settings that a model was found by.
func (m *Model) config() (Config, error) {
	c := Config{
		Kind: m.Kind, Metric: m.Metric, Rank: m.Info.Rank, Preset: PresetMetric, Nu: m.Info.Nu, NuGaussian: m.Info.NuGaussian, NuUnit: m.Info.NuUnit,
		Kernel: m.Kernel, DOF: m.DOF, Precision: Float32, NearCopies: true, Coordinates: m.Coordinates, Components: m.Components, Seed: 1,
	}
	if m.Metric == MetricLowRank && c.Rank == 0 {
		return c, errors.New("lca: the model does not say the rank of its low-rank metric, as those of former releases do not: begin with one of this release")
	}
	return c, c.Validate()
}

// working returns the units that m was learnt in, about its mean: that of each column is in the diagonal of C_G.
func (m *Model) working() (*working, error) {
	w := &working{dim: m.Dim, mean: slices.Clone(m.Mean), scales: m.Info.Scales}
	if len(w.scales) > 0 && len(w.scales) != m.Dim {
		return nil, fmt.Errorf("lca: the model has %d scales for %d columns", len(w.scales), m.Dim)
	}
	for k := range m.Dim {
		v := m.CG.At(k, k)
		if v == 0 {
			w.constant = append(w.constant, k)
			continue
		}
		s := 1.0
		switch {
		case !(v > 0):
			return nil, fmt.Errorf("lca: the model's C_G has %v for column %d, want a variance", v, k)
		case len(w.scales) > 0:
			s = w.scales[k]
		case m.Info.NuUnit != UnitAbsolute:
			s = math.Sqrt(v / (1 + m.Info.NuGaussian))
		}
		w.Active, w.Scale = append(w.Active, k), append(w.Scale, s)
	}
	return w, nil
}

// directionsIn brings columns of B into working units.
func (w *working) directionsIn(b *mat.Dense) *mat.Dense {
	columns := prop1.Columns(b)
	if columns == 0 {
		return &mat.Dense{}
	}
	in := mat.NewDense(len(w.Active), columns, nil)
	for a, k := range w.Active {
		for j := range columns {
			in.Set(a, j, b.At(k, j)*w.Scale[a])
		}
	}
	return in
}

// move moves the mean by what is z in coordinates Bᵀx.
func (w *working) move(z []float64, b prop1.Parts) error {
	inverse, err := b.Inverse()
	if err != nil {
		return err
	}
	for a, k := range w.Active {
		by := 0.0
		for j, v := range z {
			by += inverse.At(j, a) * v
		}
		w.mean[k] += w.Scale[a] * by
	}
	return nil
}
