package online_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// hardRows are n rows that leave something out: a direction, a scale, structure, or difference.
func hardRows(rng *rand.Rand, n, d int) (*mat.Dense, string) {
	x := mat.NewDense(n, d, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	kinds := []string{"noise", "equal columns", "collinear", "a constant column", "scales", "two values", "copies", "heavy tails", "far off", "hardly a number"}
	tiny := math.Pow(10, -80-float64(rng.IntN(240)))
	kind := rng.IntN(len(kinds))
	for i := range n {
		row := x.RawRowView(i)
		switch kinds[kind] {
		case "equal columns":
			row[d-1] = row[0]
		case "collinear":
			row[d-1] = 0
			for _, v := range row[:d-1] {
				row[d-1] += 3 * v
			}
		case "a constant column":
			row[d-1] = 7
		case "scales":
			for k := range row {
				row[k] *= math.Pow(10, float64(6*k-6))
			}
		case "two values":
			for k := range row {
				row[k] = math.Copysign(1, row[k])
			}
		case "copies":
			copy(row, x.RawRowView(i%5))
		case "heavy tails":
			row[0] = math.Tan(math.Pi * (rng.Float64() - 0.5))
		case "far off":
			row[0] += 1e8
		case "hardly a number":
			row[0] *= tiny
		}
	}
	return x, kinds[kind]
}

// TestAnyRows holds that a learner of any valid configuration gives, on any finite rows, a model whose numbers
// are finite, or an error: never a panic.
func TestAnyRows(t *testing.T) {
	models := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 3))
		d := 2 + rng.IntN(4)
		x, rows := hardRows(rng, 60+rng.IntN(200), d)
		c := online.DefaultConfig(d)
		c.Metric = oneOf(rng, lca.Metrics())
		if c.Metric == lca.MetricLowRank {
			c.Rank = 1 + rng.IntN(d-1)
		}
		c.Kind = oneOf(rng, []lca.Kind{lca.KindLCA, lca.KindLCAGauss, lca.KindLCAGaussRed})
		c.Nu = oneOf(rng, []float64{lca.Auto, 0, 0.1, 10})
		c.NuGaussian = oneOf(rng, []float64{lca.Auto, 0, 1})
		c.Kernel = oneOf(rng, []lca.Kernel{lca.KernelGaussian, lca.KernelStudent})
		c.NuUnit = oneOf(rng, []lca.Unit{lca.UnitRelative, lca.UnitCovariance})
		c.Neighbours, c.Minibatch, c.WarmupRows = oneOf(rng, []int{3, 20, 100}), 5+rng.IntN(30), 10+rng.IntN(40)
		c.Plain = oneOf(rng, []bool{false, true})
		c.Precision = oneOf(rng, []lca.Precision{lca.Float32, lca.Float64})
		c.Components = oneOf(rng, lca.AllComponents())
		if rng.IntN(2) == 0 {
			c.OutlierGate = math.Inf(1)
		}
		name := fmt.Sprintf("seed %d: %s, %v %v %v ν %v ν_g %v %v %v", seed, rows, c.Kind, c.Metric, c.Components, c.Nu, c.NuGaussian, c.NuUnit, c.Kernel)
		m, err := learnAll(x, c)
		if err != nil {
			if !errors.Is(err, online.ErrWarmup) && len(err.Error()) < 10 {
				t.Errorf("%s: the error says nothing: %q", name, err)
			}
			continue
		}
		models++
		for _, v := range m.W.RawMatrix().Data {
			if !(math.Abs(v) <= 1e100) { // what a snapshot holds
				t.Errorf("%s: W has %v", name, v)
				break
			}
		}
		for _, coords := range lca.AllCoordinates() {
			for _, comps := range lca.AllComponents() {
				if _, err := m.View(coords, comps); err != nil {
					t.Errorf("%s: view %v %v: %v", name, coords, comps, err)
				}
			}
		}
	}
	if models < 200 {
		t.Errorf("only %d of 400 gave a model", models)
	}
}

// oneOf draws one of all.
func oneOf[E any](rng *rand.Rand, all []E) E { return all[rng.IntN(len(all))] }

func learnAll(x *mat.Dense, c online.Config) (*lca.Model, error) {
	l, err := online.NewLearner(c)
	if err != nil {
		return nil, err
	}
	n, d := x.Dims()
	for i := 0; i+c.Minibatch <= n; i += c.Minibatch {
		if _, err := l.Learn(x.Slice(i, i+c.Minibatch, 0, d).(*mat.Dense), nil, nil); err != nil {
			return nil, err
		}
	}
	return l.Model()
}
