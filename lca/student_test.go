package lca_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestStudentIsMonotone is TestMonotone for t kernels, while d_P stays: a t in p dimensions is no product of a t in p−1
// and a Gaussian, so the step that gives a direction up is no step of the same objective.
func TestStudentIsMonotone(t *testing.T) {
	five, _ := toy("five", 80, 2, 1)
	x, _, _ := mixed(five, 1)
	for _, kind := range []lca.Kind{lca.KindLCA, lca.KindLCAGauss} {
		for _, metric := range metrics {
			for _, unit := range []lca.Unit{lca.UnitAbsolute, lca.UnitCovariance} {
				for _, a := range arithmetics {
					t.Run(caseName(kind, "/", metric, "/", unit, "/", a.name), func(t *testing.T) {
						c := paperConfig(kind, 0.05)
						c.NuUnit, c.Metric, c.Rank, c.MaxIter, c.Tol, c.Precision = unit, metric, 2, 40, -1, a.precision
						c.Kernel = lca.KernelStudent
						steps, last := 0, lca.Iteration{Penalised: math.Inf(1)}
						c.Trace = func(i lca.Iteration) {
							if rise := i.Penalised - last.Penalised; rise > a.rise && i.Parzen == last.Parzen {
								t.Errorf("step %d raises the objective by %.3g", i.Iter, rise)
							}
							steps, last = steps+1, i
						}
						fit(t, x, c)
						if steps < 41 {
							t.Fatalf("%d steps were traced, want 41", steps)
						}
					})
				}
			}
		}
	}
}

// TestStudentIntegratesToOne sums the density over a grid whose steps grow with the distance as sinh does, so that it
// reaches 1000 standard deviations: the tails of a t with 4 degrees of freedom hold 1e-11 beyond.
func TestStudentIntegratesToOne(t *testing.T) {
	circles, _ := toy("circles", 40, 0, 3)
	x, _, _ := mixed(circles, 3)
	for _, kind := range []lca.Kind{lca.KindLCA, lca.KindLCAGauss, lca.KindLCAGaussRed} {
		for _, dof := range []int{0, 9} {
			t.Run(caseName(kind, "/", dof), func(t *testing.T) {
				c := densityConfig(kind)
				c.Kernel, c.DOF, c.Nu = lca.KernelStudent, dof, 0.05
				m := fit(t, x, c)
				var chol mat.Cholesky
				if !chol.Factorize(m.CG) {
					t.Fatal("C_G is singular")
				}
				var l mat.TriDense
				chol.LTo(&l)
				const side, reach = 300, 7.6
				step := 2 * reach / side
				grid, volume := mat.NewDense(side*side, 2, nil), make([]float64, side*side)
				for i := range volume {
					a, b := step*float64(i%side)-reach, step*float64(i/side)-reach
					u := mat.NewVecDense(2, []float64{math.Sinh(a), math.Sinh(b)})
					u.MulVec(&l, u)
					grid.SetRow(i, []float64{u.AtVec(0) + m.Mean[0], u.AtVec(1) + m.Mean[1]})
					volume[i] = step * step * math.Cosh(a) * math.Cosh(b) * l.At(0, 0) * l.At(1, 1)
				}
				sum := 0.0
				for i, p := range m.LogDensity(nil, grid) {
					sum += math.Exp(p) * volume[i]
				}
				nearly(t, "integral", sum, 1, 1e-6)
			})
		}
	}
}

// TestManyDegreesAreGaussian holds that t kernels come to Gaussian ones as 1/dof.
func TestManyDegreesAreGaussian(t *testing.T) {
	five, _ := toy("five", 150, 2, 5)
	c := densityConfig(lca.KindLCAGauss)
	c.MaxIter = 3
	want := fit(t, five, c)
	off := func(dof int) float64 {
		c.Kernel, c.DOF = lca.KernelStudent, dof
		m := fit(t, five, c)
		return math.Abs(m.Info.NLL - want.Info.NLL)
	}
	few, many := off(100), off(lca.MostDOF)
	if !(many < 0.01 && few > 5*many && few < 20*many) {
		t.Errorf("the NLL is off by %g with 100 degrees of freedom, by %g with 1000", few, many)
	}
}

// TestStudentBoundsPull holds that one row in twenty at 8 standard deviations costs t kernels little: the NLL of clean
// rows rises by less than a fifth of what it costs Gaussian kernels.
func TestStudentBoundsPull(t *testing.T) {
	const n, fresh, d = 600, 300, 4
	r := rand.New(rand.NewPCG(6, 3))
	five, _ := toy("five", n+fresh, d-2, 6)
	clean := mat.DenseCopyOf(five.Slice(0, n, 0, d))
	dirty := mat.DenseCopyOf(clean)
	for i := 0; i < n; i += 20 {
		for k := range d {
			dirty.Set(i, k, dirty.At(i, k)+24*r.NormFloat64())
		}
	}
	cost := func(kernel lca.Kernel) float64 {
		c := densityConfig(lca.KindLCA)
		c.Kernel = kernel
		test := mat.DenseCopyOf(five.Slice(n, n+fresh, 0, d))
		return fit(t, dirty, c).TestNLL(test, dirty) - fit(t, clean, c).TestNLL(test, clean)
	}
	if gaussian, student := cost(lca.KernelGaussian), cost(lca.KernelStudent); !(student < gaussian/5) {
		t.Errorf("outliers cost t kernels %.3f nats per row, Gaussian ones %.3f", student, gaussian)
	}
}

// TestLocalStudent holds that a covariance for each point is learnt with t kernels too, by steps that never raise the
// objective.
func TestLocalStudent(t *testing.T) {
	x, _ := toy("circles", 120, 0, 1)
	c := localConfig()
	c.Smoothing, c.Shared.Kernel, c.Tol, c.MaxIter = 1, lca.KernelStudent, -1, 20
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
	if m.Iter != 20 || !(m.NLL < m.Shared.Info.NLL) {
		t.Errorf("%d steps to %.4f, the shared metric has %.4f", m.Iter, m.NLL, m.Shared.Info.NLL)
	}
}
