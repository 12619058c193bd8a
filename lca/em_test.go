package lca_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestMonotone holds that the penalised leave-one-out NLL never rises under EM, for every kind and
// metric, with every penalty and in every arithmetic: the M-steps are exact.
func TestMonotone(t *testing.T) {
	five, _ := toy("five", 80, 2, 1)
	x, _, _ := mixed(five, 1)
	for _, kind := range []lca.Kind{lca.KindLCA, lca.KindLCAGauss} {
		for _, metric := range metrics {
			for _, nu := range []float64{0, 0.05, 1} {
				for _, unit := range []lca.Unit{lca.UnitAbsolute, lca.UnitRelative, lca.UnitCovariance} {
					for _, a := range arithmetics {
						t.Run(caseName(kind, "/", metric, "/ν=", nu, "/", unit, "/", a.name), func(t *testing.T) {
							c := paperConfig(kind, nu)
							c.NuGaussian, c.NuUnit, c.Metric, c.Rank, c.MaxIter, c.Tol, c.Precision = nu/3, unit, metric, 2, 40, -1, a.precision
							steps, last := 0, lca.Iteration{Penalised: math.Inf(1)}
							c.Trace = func(i lca.Iteration) {
								if rise := i.Penalised - last.Penalised; rise > a.rise {
									t.Errorf("step %d (d_P %d → %d) raises the objective by %.3g", i.Iter, last.Parzen, i.Parzen, rise)
								}
								steps, last = steps+1, i
							}
							fit(t, x, c)
							// An all-Gaussian model has nothing left to learn, and ends the run early.
							if steps < 41 && last.Parzen > 0 {
								t.Fatalf("%d steps were traced, want 41", steps)
							}
						})
					}
				}
			}
		}
	}
}

// TestReduceBeatsGauss holds that LCA-Gauss-Red never ends above LCA-Gauss, and on two clusters in noise
// gives nearly all that is noise to the Gaussian.
func TestReduceBeatsGauss(t *testing.T) {
	two, _ := toy("two", 250, 6, 3)
	x, _, _ := mixed(two, 3)
	gauss := fit(t, x, paperConfig(lca.KindLCAGauss, 0))
	runs := 0
	c := paperConfig(lca.KindLCAGaussRed, 0)
	c.Trace = func(i lca.Iteration) { runs = i.Run }
	red := fit(t, x, c)
	if red.Info.NLL > gauss.Info.NLL {
		t.Errorf("LCA-Gauss-Red ends at %.6f, LCA-Gauss at %.6f", red.Info.NLL, gauss.Info.NLL)
	}
	// 250 rows in 8 dimensions let one direction of noise pass for structure, not more.
	if red.Parzen() > 2 || red.Parzen() >= gauss.Parzen() {
		t.Errorf("d_P = %d, want 1 or 2, and below LCA-Gauss's %d", red.Parzen(), gauss.Parzen())
	}
	if runs < 3 {
		t.Errorf("%d runs, want the first, some reruns and the last", runs+1)
	}
}

// TestOneStepIsManifoldParzen holds that MaxIter counts M-steps: one from C_G is MPW, and two EM runs
// of one step each are not it.
func TestOneStepIsManifoldParzen(t *testing.T) {
	x, _ := toy("two", 100, 1, 4)
	c := paperConfig(lca.KindLCA, 0)
	c.MaxIter = 1
	var iters []int
	c.Trace = func(i lca.Iteration) { iters = append(iters, i.Iter) }
	mpw := fit(t, x, c)
	if len(iters) != 2 || iters[1] != 1 {
		t.Errorf("steps traced: %v, want 0 and 1", iters)
	}
	c.MaxIter, c.Trace = 0, nil
	if converged := fit(t, x, c); converged.Info.NLL >= mpw.Info.NLL {
		t.Errorf("converged at %v, one step at %v", converged.Info.NLL, mpw.Info.NLL)
	}
}

// TestGaussian holds that the baseline is the Gaussian with the rows' mean and covariance.
func TestGaussian(t *testing.T) {
	x, _ := toy("five", 200, 1, 5)
	m := fit(t, x, paperConfig(lca.KindGaussian, 0))
	if m.Parzen() != 0 || m.Gaussian() != 3 {
		t.Fatalf("d_P = %d, d_G = %d, want 0 and 3", m.Parzen(), m.Gaussian())
	}
	var inverse mat.Dense
	if err := inverse.Inverse(m.CG); err != nil {
		t.Fatal(err)
	}
	near(t, "P_G", precision(m.BG, 3), &inverse, 1e-12)
	// In the sample's own Gaussian the mean of (x−μ)ᵀ C_G⁻¹ (x−μ) is d.
	logDet, _ := mat.LogDet(m.CG)
	want := 0.5 * (3*log2Pi + logDet + 3)
	nearly(t, "NLL", m.Info.NLL, want, 1e-12)
	nearly(t, "TestNLL", m.TestNLL(x, x), want, 1e-12)
	nearly(t, "GaussianNLL", m.Info.GaussianNLL, want, 1e-12)
}

// TestCancelled holds that a fit ends with its context, in the first step or in a later one.
func TestCancelled(t *testing.T) {
	x, _ := toy("five", 200, 2, 6)
	for _, at := range []int{0, 3} {
		ctx, cancel := context.WithCancel(context.Background())
		c := paperConfig(lca.KindLCAGaussRed, 0)
		steps := 0
		c.Trace = func(lca.Iteration) {
			if steps++; steps >= at {
				cancel()
			}
		}
		if at == 0 {
			cancel()
		}
		if _, err := lca.Fit(ctx, x, c); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at step %d: %v", at, err)
		}
		if steps > at {
			t.Errorf("cancelled at step %d, but made %d", at, steps)
		}
		cancel()
	}
}

// TestBitsForAnyGOMAXPROCS holds that the number of threads does not show.
func TestBitsForAnyGOMAXPROCS(t *testing.T) {
	five, _ := toy("five", 700, 4, 7)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var want *lca.Model
	for _, threads := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(threads)
		c := paperConfig(lca.KindLCAGauss, 0.01)
		c.MaxIter, c.Minibatch, c.Neighbours, c.Gamma = 3, 300, 500, 0.6
		m := fit(t, five, c)
		if want == nil {
			want = m
			continue
		}
		if !mat.Equal(m.CL, want.CL) || !mat.Equal(m.W, want.W) || m.Info.NLL != want.Info.NLL {
			t.Errorf("%d threads: the bits differ from those of 1", threads)
		}
	}
}
