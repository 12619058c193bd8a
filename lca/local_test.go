package lca_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

func localConfig() lca.LocalConfig {
	return lca.LocalConfig{Smoothing: lca.Auto, Shared: paperConfig(lca.KindLCA, 1e-3)}
}

// TestLocal holds, on rings whose local shape turns with the angle, that EM with one covariance a point never
// raises its objective, ends below the shared metric, and gives covariances that turn too.
func TestLocal(t *testing.T) {
	x, _ := toy("circles", 250, 0, 1)
	c := localConfig()
	c.Smoothing = 1
	last := math.Inf(1)
	c.Trace = func(i lca.Iteration) {
		if i.Penalised > last+1e-9 {
			t.Errorf("step %d raises the objective from %v to %v", i.Iter, last, i.Penalised)
		}
		last = i.Penalised
	}
	m, err := lca.FitLocal(context.Background(), x, c)
	if err != nil {
		t.Fatal(err)
	}
	if !(m.NLL < m.Shared.Info.NLL-0.05) {
		t.Errorf("NLL %.4f, the shared metric has %.4f", m.NLL, m.Shared.Info.NLL)
	}
	least, most := math.Inf(1), 0.0
	for j := range 250 {
		tilt := m.Covariance(j).At(0, 1) / math.Sqrt(m.Covariance(j).At(0, 0)*m.Covariance(j).At(1, 1))
		least, most = math.Min(least, tilt), math.Max(most, tilt)
	}
	if least > -0.3 || most < 0.3 {
		t.Errorf("correlations within %.2f … %.2f, want some of each sign", least, most)
	}
}

// TestLocalSmoothing holds that with κ → ∞ every point has the shared covariance, and the density is LCA's.
func TestLocalSmoothing(t *testing.T) {
	two, _ := toy("two", 80, 1, 2)
	x, _, _ := mixed(two, 2)
	c := localConfig()
	c.Smoothing, c.MaxIter, c.Shared.Nu = 1e12, 3, 0
	m, err := lca.FitLocal(context.Background(), x, c)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "Σ_7", m.Covariance(7), m.Shared.CL, 1e-8)
	nearly(t, "NLL", m.NLL, m.Shared.Info.NLL, 1e-8)
	sum := 0.0
	for _, p := range m.LogDensity(nil, x) {
		sum -= p / 80
	}
	nearly(t, "NLL of its own rows", sum, m.Shared.TestNLL(x, x), 1e-8)
}

// TestLocalIntegratesToOne sums the density of a skewed sample in one dimension.
func TestLocalIntegratesToOne(t *testing.T) {
	x := mat.NewDense(30, 1, nil)
	for i := range 30 {
		x.Set(i, 0, 100+math.Exp(float64(i)/10))
	}
	m, err := lca.FitLocal(context.Background(), x, localConfig())
	if err != nil {
		t.Fatal(err)
	}
	const points, from, to = 40000, 0., 250.
	grid := mat.NewDense(points, 1, nil)
	for i := range points {
		grid.Set(i, 0, from+(to-from)*float64(i)/points)
	}
	sum := 0.0
	for _, p := range m.LogDensity(make([]float64, points), grid) {
		sum += math.Exp(p)
	}
	nearly(t, "integral", sum*(to-from)/points, 1, 1e-6)
}

// TestLocalRefused holds that what cannot be fitted is named, and that it ends with its context.
func TestLocalRefused(t *testing.T) {
	x, _ := toy("two", 30, 0, 3)
	bad := localConfig()
	bad.Smoothing = math.NaN()
	if _, err := lca.FitLocal(context.Background(), x, bad); err == nil || !strings.Contains(err.Error(), "Smoothing") {
		t.Errorf("Smoothing NaN: %v", err)
	}
	if _, err := lca.FitLocal(context.Background(), mat.NewDense(60000, 100, nil), localConfig()); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("60000 covariances of 100 columns: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := localConfig()
	c.Trace = func(lca.Iteration) { cancel() }
	if _, err := lca.FitLocal(ctx, x, c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLocalFactors writes the density out of the factors and the determinants of the points, for both kernels and next to a
// constant column.
func TestLocalFactors(t *testing.T) {
	two, _ := toy("two", 60, 1, 4)
	x := mat.NewDense(60, 4, nil)
	for i := range 60 {
		x.SetRow(i, []float64{1e6 * two.At(i, 0), 7, two.At(i, 1), 1e-3*two.At(i, 2) + 5})
	}
	for _, dof := range []int{0, 4} {
		c := lca.LocalConfig{Smoothing: lca.Auto, Shared: lca.DefaultConfig()}
		if dof > 0 {
			c.Shared.Kernel, c.Shared.DOF = lca.KernelStudent, dof
		}
		m, err := lca.FitLocal(context.Background(), x, c)
		if err != nil {
			t.Fatal(err)
		}
		row := mat.NewDense(1, 4, []float64{2e6, 7, 0.3, 5.0005})
		p := 0.0
		for j := range 60 {
			var z, inverse mat.Dense
			difference := mat.NewVecDense(4, nil)
			difference.SubVec(row.RowView(0), x.RowView(j))
			f := m.Factor(j)
			z.Mul(f, difference)
			delta := mat.Dot(z.ColView(0), z.ColView(0))
			logs := -1.5*math.Log(2*math.Pi) - 0.5*delta
			if dof > 0 {
				top, _ := math.Lgamma(3.5)
				bottom, _ := math.Lgamma(2)
				logs = top - bottom - 1.5*math.Log(4*math.Pi) - 3.5*math.Log1p(delta/4)
			}
			p += math.Exp(logs-0.5*m.LogDet(j)) / 60
			inverse.Product(f, m.Covariance(j), f.T())
			for k := range 4 {
				want := 1.0
				if k == 1 {
					want = 0
				}
				nearly(t, "F Σ Fᵀ", inverse.At(k, k), want, 1e-9)
			}
		}
		nearly(t, "log density", m.LogDensity(nil, row)[0], math.Log(p), 1e-9)
	}
}
