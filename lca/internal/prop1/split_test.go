package prop1

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// bound is the objective of Proposition 1 (eq. 7).
func bound(m1, m2 *mat.SymDense, b Parts) float64 {
	trace := func(m *mat.SymDense, b *mat.Dense) float64 {
		if Columns(b) == 0 {
			return 0
		}
		var left, all mat.Dense
		left.Mul(b.T(), m)
		all.Mul(&left, b)
		return mat.Trace(&all)
	}
	logDet, _ := mat.LogDet(b.Joined())
	return trace(m1, b.BG) + trace(m2, b.BL) - 2*logDet
}

func randomCovariance(d int, r *rand.Rand) *mat.SymDense {
	z := mat.NewDense(d, d+2, nil)
	for i := range d {
		for j := range d + 2 {
			z.Set(i, j, r.NormFloat64())
		}
	}
	var c mat.Dense
	c.Mul(z, z.T())
	return Ridge(Symmetric(&c), 0.1)
}

// minimised returns the lowest bound that BFGS finds from several random starts with parzen columns in B_L.
func minimised(t *testing.T, m1, m2 *mat.SymDense, parzen int, r *rand.Rand) float64 {
	t.Helper()
	d := m1.SymmetricDim()
	unpack := func(v []float64) Parts { // B_L first
		all := mat.NewDense(d, d, append([]float64(nil), v...))
		return Parts{BL: ColumnRange(all, 0, parzen), BG: ColumnRange(all, parzen, d)}
	}
	problem := optimize.Problem{
		Func: func(v []float64) float64 { return bound(m1, m2, unpack(v)) },
		Grad: func(grad, v []float64) { // 2 M₂ B_L, 2 M₁ B_G, less 2 B^(−T)
			all := mat.NewDense(d, d, v)
			var inverse mat.Dense
			if err := inverse.Inverse(all); err != nil && math.IsInf(mat.Cond(all, 2), 1) {
				t.Fatal(err)
			}
			for j := range d {
				m := m2
				if j >= parzen {
					m = m1
				}
				var mb mat.VecDense
				mb.MulVec(m, all.ColView(j))
				for i := range d {
					grad[i*d+j] = 2*mb.AtVec(i) - 2*inverse.At(j, i)
				}
			}
		},
	}
	lowest := math.Inf(1)
	for range 4 {
		start := make([]float64, d*d)
		for i := range start {
			start[i] = r.NormFloat64()
		}
		// The line search gives up within rounding of the minimum, which is as good as converging.
		result, err := optimize.Minimize(problem, start, &optimize.Settings{GradientThreshold: 1e-7, MajorIterations: 2000}, &optimize.BFGS{})
		if result == nil {
			t.Fatal(err)
		}
		lowest = math.Min(lowest, result.F)
	}
	return lowest
}

// TestProposition1 compares every split at d = 4 with a numerical optimiser that knows nothing of
// eigenvalues, and the cut at e = 1 with the best of the splits and with the closed form.
func TestProposition1(t *testing.T) {
	const d = 4
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 3))
		m1, m2 := randomCovariance(d, r), randomCovariance(d, r)
		root, err := InverseRoot(m1)
		if err != nil {
			t.Fatal(err)
		}
		best := math.Inf(1)
		for parzen := range d + 1 {
			t.Run(fmt.Sprintf("seed=%d/d_P=%d", seed, parzen), func(t *testing.T) {
				b, err := Split(root, m2, parzen)
				if err != nil {
					t.Fatal(err)
				}
				got := bound(m1, m2, b)
				best = math.Min(best, got)
				want := minimised(t, m1, m2, parzen, r)
				if math.Abs(got-want) > 1e-7 {
					t.Errorf("bound is %.12g, the optimiser found %.12g", got, want)
				}
			})
		}
		b, err := Split(root, m2, Auto)
		if err != nil {
			t.Fatal(err)
		}
		closed, _ := mat.LogDet(m1)
		closed += d
		for _, e := range b.Ratio[:Columns(b.BL)] {
			closed += math.Log(e)
		}
		if got := bound(m1, m2, b); math.Abs(got-best) > 1e-10 || math.Abs(got-closed) > 1e-10 {
			t.Errorf("seed %d: the cut at e = 1 gives %.12g, the best split %.12g, the closed form %.12g", seed, got, best, closed)
		}
	}
}

// TestSplitOfDependentColumns holds that a singular matrix is refused and never answered with noise.
func TestSplitOfDependentColumns(t *testing.T) {
	singular := mat.NewSymDense(2, []float64{1, 1, 1, 1})
	if _, err := InverseRoot(singular); err == nil {
		t.Error("a singular M₁ has an inverse root")
	}
	root, err := InverseRoot(mat.NewSymDense(2, []float64{2, 0, 0, 1}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Split(root, mat.NewSymDense(2, nil), Auto); err == nil {
		t.Error("M₂ = 0 has a split")
	}
}

// TestCovarianceOf holds that the covariance of a full split is M₂ itself, whatever the cut.
func TestCovarianceOf(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 3))
	m1, m2 := randomCovariance(5, r), randomCovariance(5, r)
	root, err := InverseRoot(m1)
	if err != nil {
		t.Fatal(err)
	}
	for parzen := range 6 {
		b, err := Split(root, m2, parzen)
		if err != nil {
			t.Fatal(err)
		}
		got, err := covarianceOf(b)
		if err != nil {
			t.Fatal(err)
		}
		if !mat.EqualApprox(got, m2, 1e-10) {
			t.Errorf("d_P = %d: covariance\n%v\nwant\n%v", parzen, mat.Formatted(got), mat.Formatted(m2))
		}
	}
}
