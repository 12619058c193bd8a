package online

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestWideRows holds that a stream of many columns has a model after 500 rows beyond one for each, and that from then on as many fresh rows have a small p as p
// says: those before it that are more likely for their own part in μ, C_G and C_L would have a third of them below .05.
func TestWideRows(t *testing.T) {
	const d, rows = 160, 2200
	for name, factors := range map[string]int{"white": 0, "with factors": 6} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(9, uint64(factors)))
			loads := make([]float64, factors*d)
			for k := range loads {
				loads[k] = r.NormFloat64()
			}
			c := DefaultConfig(d)
			c.Preset, c.Neighbours = lca.PresetDensity, 1000
			l, err := NewLearner(c)
			if err != nil {
				t.Fatal(err)
			}
			var m *lca.Model
			first, scored, low := 0, 0., 0.
			for seen := 0; seen < rows; seen += c.Minibatch {
				x := mat.NewDense(c.Minibatch, d, nil)
				for i := range c.Minibatch {
					row := x.RawRowView(i)
					for k := range row {
						row[k] = r.NormFloat64()
					}
					for f := range factors {
						z := r.NormFloat64()
						for k := range row {
							row[k] += z * loads[f*d+k]
						}
					}
				}
				if m != nil {
					for _, nats := range m.LogDensity(nil, x) {
						if scored++; m.Scores.P(-nats) < 0.05 {
							low++
						}
					}
				}
				if _, err := l.Learn(x, nil, nil); err != nil {
					t.Fatal(err)
				}
				if m, err = l.Model(); err == nil && first == 0 {
					first = seen + c.Minibatch
				} else if err != nil && !errors.Is(err, ErrWarmup) {
					t.Fatal(err)
				}
			}
			if first > d+500+c.Minibatch {
				t.Errorf("the first model is of %d rows", first)
			}
			if share := low / scored; share < 0.03 || share > 0.08 {
				t.Errorf("%.1f %% of fresh rows have p < .05", 100*share)
			}
			if m.Parzen() != 0 || slices.ContainsFunc(m.Ratio, func(e float64) bool { return e != 2 }) {
				t.Fatalf("d_P = %d, e = %v", m.Parzen(), m.Ratio)
			}
			var gaussian mat.Cholesky
			if !gaussian.Factorize(m.CG) {
				t.Fatal("C_G is not positive definite")
			}
			x, off, solved := mat.NewDense(1, d, nil), mat.NewVecDense(d, nil), new(mat.VecDense)
			for k := range d {
				off.SetVec(k, r.NormFloat64())
				x.Set(0, k, m.Mean[k]+off.AtVec(k))
			}
			if err := gaussian.SolveVecTo(solved, off); err != nil {
				t.Fatal(err)
			}
			want := -0.5 * (mat.Dot(off, solved) + d*math.Log(2*math.Pi) + gaussian.LogDet())
			if got := m.LogDensity(nil, x)[0]; math.Abs(got-want) > 1e-8*math.Abs(want) {
				t.Errorf("log p is %v, that of N(μ, C_G) %v", got, want)
			}
		})
	}
}
