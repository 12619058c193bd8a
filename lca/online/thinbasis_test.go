package online

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// makeWhole replaces a thin B by the same as a matrix, so that the next step is that of any matrix.
func makeWhole(t *testing.T, l *Learner) {
	t.Helper()
	m, n := l.metric, len(l.metric.Active)
	if m.form == wholeForm {
		t.Fatal("the metric is a matrix already")
	}
	b := mat.NewDense(n, n, append([]float64(nil), m.dense(l.work)...))
	var inverse mat.Dense
	if err := inverse.Inverse(b); err != nil {
		t.Fatal(err)
	}
	m.form, m.basis, m.inverse, m.fresh = wholeForm, b.RawMatrix().Data, inverse.RawMatrix().Data, make([]float64, n*n)
	l.splits++
	m.number, m.frame = l.splits, l.splits
}

// TestThinIsTheWholeStep holds that the steps of a metric of few numbers are those with whole matrices, over a hundred minibatches. Of these the single
// Gaussian is found at each, and of a thin metric from time to time, so that its own figure differs a little.
func TestThinIsTheWholeStep(t *testing.T) {
	const d, rows, minibatches = 24, 50, 100
	for _, kind := range []lca.Kind{lca.KindLCA, lca.KindLCAGauss} {
		for _, metric := range []lca.Metric{lca.MetricDiagonal, lca.MetricLowRank, lca.MetricIsotropic} {
			for _, precision := range []lca.Precision{lca.Float64, lca.Float32} {
				for _, unit := range []lca.Unit{lca.UnitRelative, lca.UnitCovariance} {
					if kind == lca.KindLCAGauss && metric != lca.MetricDiagonal {
						continue // that one is a matrix
					}
					c := DefaultConfig(d)
					c.Kind, c.Metric, c.Precision, c.NuUnit = kind, metric, precision, unit
					c.Neighbours, c.Minibatch, c.Plain, c.Recent = 300, rows, true, false
					if metric == lca.MetricLowRank {
						c.Rank = 3
					}
					most := map[lca.Precision]float64{lca.Float64: 1e-9, lca.Float32: 1e-6}[precision]
					t.Run(fmt.Sprintf("%v %v %v %v", kind, metric, precision, unit), func(t *testing.T) { thinIsTheWholeStep(t, c, minibatches, most) })
				}
			}
		}
	}
}

// TestFollowedDirections holds how near the directions of a low-rank metric of many columns are that are followed between two splits, two of which stand out
// and one does not.
func TestFollowedDirections(t *testing.T) {
	c := DefaultConfig(80)
	c.Kind, c.Metric, c.Rank, c.Precision = lca.KindLCA, lca.MetricLowRank, 3, lca.Float64
	c.Neighbours, c.Minibatch, c.Plain, c.Recent = 600, 200, true, false
	thinIsTheWholeStep(t, c, 100, 1e-4)
}

// thinIsTheWholeStep compares a learner with one that has whole matrices: their figures differ by at most most.
func thinIsTheWholeStep(t *testing.T, c Config, minibatches int, most float64) {
	thin, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, uint64(c.Dim)))
	x, kept, d := mat.NewDense(c.Minibatch, c.Dim, nil), 0, c.Dim
	for i := range minibatches {
		for row := range c.Minibatch {
			far, side := r.NormFloat64(), float64(6*r.IntN(2))
			for k := range d {
				x.Set(row, k, math.Pow(10, float64(k%7-3))*(r.NormFloat64()+far*float64(k%3)+side))
			}
		}
		if whole.metric != nil {
			makeWhole(t, whole)
		}
		got, want := feed(t, thin, x, c.Minibatch)[0], feed(t, whole, x, c.Minibatch)[0]
		if got.Warmup {
			continue
		}
		if thin.metric.frame != thin.metric.number {
			kept++
		}
		for _, v := range [][2]float64{{got.NLL, want.NLL}, {got.Effective, want.Effective}, {float64(got.Parzen), float64(want.Parzen)}} {
			if !(math.Abs(v[0]-v[1]) <= most*max(1, math.Abs(v[1]))) && v[0] == v[0] {
				t.Fatalf("minibatch %d has an NLL, effective neighbours and d_P of %v, %v and %d, with whole matrices %v, %v and %d",
					i, got.NLL, got.Effective, got.Parzen, want.NLL, want.Effective, want.Parzen)
			}
		}
		if !(math.Abs(got.GaussianNLL-want.GaussianNLL) <= 0.1/24*float64(d)) && got.GaussianNLL == got.GaussianNLL {
			t.Fatalf("minibatch %d has a Gaussian NLL of %v, with that of each minibatch %v", i, got.GaussianNLL, want.GaussianNLL)
		}
	}
	if kept < minibatches/4 {
		t.Errorf("the single Gaussian was kept in %d of %d minibatches", kept, minibatches)
	}
	for i := range d {
		for j := range d {
			if c.Metric == lca.MetricDiagonal && i != j {
				continue
			}
			size := math.Sqrt(whole.cl[i*d+i] * whole.cl[j*d+j])
			if off := math.Abs(thin.cl[i*d+j] - whole.cl[i*d+j]); !(off <= 10*most*size) {
				t.Fatalf("element %d, %d of C_L is %v, with whole matrices %v", i, j, thin.cl[i*d+j], whole.cl[i*d+j])
			}
		}
	}
}

// TestFollowedDirectionsGoOn holds that a learner that was written and read between two splits follows the same directions, to the bit.
func TestFollowedDirectionsGoOn(t *testing.T) {
	const d = 80
	c := DefaultConfig(d)
	c.Kind, c.Metric, c.Rank, c.Neighbours, c.Recent = lca.KindLCA, lca.MetricLowRank, 3, 600, false
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(6, d))
	x := mat.NewDense(c.Minibatch, d, nil)
	kept := 0
	for range 40 {
		for row := range c.Minibatch {
			far := 3 * r.NormFloat64()
			for k := range d {
				x.Set(row, k, r.NormFloat64()+far*float64(k%3))
			}
		}
		restored, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := restored.UnmarshalBinary(stateOf(t, l)); err != nil {
			t.Fatal(err)
		}
		feed(t, l, x, c.Minibatch)
		feed(t, restored, x, c.Minibatch)
		if m := l.metric; m != nil && m.form == narrowForm && m.frame != m.number {
			kept++
		}
		if !bytes.Equal(stateOf(t, restored), stateOf(t, l)) {
			t.Fatal("a learner that was read goes on otherwise")
		}
	}
	if kept < 10 {
		t.Errorf("directions were followed in %d minibatches", kept)
	}
}
