package online

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// five draws the paper's toy: five Gaussians in the plane, the middle one four times as heavy, and
// noise columns of unit variance.
func five(r *rand.Rand, n, noise int) *mat.Dense {
	x := mat.NewDense(n, 2+noise, nil)
	for i := range n {
		row := x.RawRowView(i)
		for k := range row {
			row[k] = r.NormFloat64()
		}
		if k := r.IntN(8); k < 4 {
			row[0] += float64(8*(k&1) - 4)
			row[1] += float64(4*(k&2) - 4)
		}
	}
	return x
}

// sequence are identities 0 … n−1.
func sequence(from, n int) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = uint64(from + i)
	}
	return ids
}

// feed hands rows to a learner in minibatches of b, identities being row numbers.
func feed(t testing.TB, l *Learner, x *mat.Dense, b int) (steps []Step) {
	t.Helper()
	n, d := x.Dims()
	for i := 0; i < n; i += b {
		to := min(n, i+b)
		s, err := l.Learn(x.Slice(i, to, 0, d).(*mat.Dense), sequence(i, to-i), nil)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	return steps
}

func maxDifference(a, b mat.Matrix) float64 {
	var d mat.Dense
	d.Sub(a, b)
	return mat.Norm(&d, math.Inf(1))
}

// With γ = 0 and all rows both as minibatch and as pool, Learn is one EM step of Fit.
func TestLearnEqualsFit(t *testing.T) {
	x := five(rand.New(rand.NewPCG(1, 1)), 300, 3)
	n, d := x.Dims()
	for _, kind := range []lca.Kind{lca.KindLCA, lca.KindLCAGauss} {
		for _, metric := range lca.Metrics() {
			t.Run(kind.String()+"/"+metric.String(), func(t *testing.T) {
				c := DefaultConfig(d)
				c.Kind, c.Metric, c.Precision, c.Preset = kind, metric, lca.Float64, lca.PresetDensity
				c.Gamma, c.Neighbours, c.Minibatch, c.WarmupRows = 0, n, n, n
				if metric == lca.MetricLowRank {
					c.Rank = 2
				}
				l, err := NewLearner(c)
				if err != nil {
					t.Fatal(err)
				}
				feed(t, l, x, n)
				for steps := 1; steps <= 4; steps++ {
					s := feed(t, l, x, n)[0]
					f := c.Fit()
					f.MaxIter, f.Tol = steps, -1
					want, err := lca.Fit(context.Background(), x, f)
					if err != nil {
						t.Fatal(err)
					}
					got, err := l.Model()
					if err != nil {
						t.Fatal(err)
					}
					if e := maxDifference(got.CL, want.CL); e > 1e-10 {
						t.Errorf("step %d: C_L differs by %g", steps, e)
					}
					if e := maxDifference(got.CG, want.CG); e > 1e-10 {
						t.Errorf("step %d: C_G differs by %g", steps, e)
					}
					if got.Parzen() != want.Parzen() {
						t.Fatalf("step %d: d_P %d, want %d", steps, got.Parzen(), want.Parzen())
					}
					if e := maxDifference(got.BL, want.BL); e > 1e-9 {
						t.Errorf("step %d: B_L differs by %g", steps, e)
					}
					t.Log(s.NLL, want.Info.NLL, got.Parzen())
				}
			})
		}
	}
}

// policies is DefaultConfig for the tests of what the learner does by itself where the last rows are not scored: series whose rows are
// held back never come to that (holds_test.go).
func policies(dim int) Config {
	c := DefaultConfig(dim)
	c.Recent = false
	return c
}
