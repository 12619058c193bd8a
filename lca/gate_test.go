package lca

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestRareColumns holds that the gate costs nothing where columns are zero but for one row in a hundred: no
// such row is taken for an outlier, so that fresh ones score as they do without a gate.
func TestRareColumns(t *testing.T) {
	const d, rare, n = 10, 6, 3000
	draw := func(r *rand.Rand, rows int) *mat.Dense {
		x := mixture(60, d, 5)(r, rows)
		for i := range rows {
			for k := range rare {
				v := 0.0
				if r.Float64() < 0.01 {
					v = math.Exp(2 * r.NormFloat64())
				}
				x.Set(i, k, v)
			}
		}
		return x
	}
	x, fresh := draw(rand.New(rand.NewPCG(1, 14)), n), draw(rand.New(rand.NewPCG(2, 14)), 1000)
	nll := map[float64]float64{}
	for _, gate := range []float64{Auto, math.Inf(1), 100} {
		c := streamConfig(d)
		c.OutlierGate, c.Finite = gate, true
		m := learned(t, c, x, sequence(0, n))
		nll[gate] = -mean(m.LogDensity(nil, fresh))
		if gate == Auto && m.Info.Gated > 0 {
			t.Errorf("%d of %d rows taken for outliers", m.Info.Gated, n)
		}
	}
	t.Logf("NLL %.2f, without a gate %.2f, with one in kernel widths %.2f", nll[Auto], nll[math.Inf(1)], nll[100])
	if !(nll[Auto] <= nll[math.Inf(1)]+0.1) {
		t.Errorf("NLL %.2f, without a gate %.2f", nll[Auto], nll[math.Inf(1)])
	}
	if !(nll[100] > nll[Auto]+1) {
		t.Error("a gate in kernel widths does no harm here: this is no test any more")
	}
}

// TestSparseScale holds that a sparse column is measured as if half of the rows differed, on a stream and in a fit.
func TestSparseScale(t *testing.T) {
	const d, n = 4, 2000
	r := rand.New(rand.NewPCG(3, 14))
	x := mixture(61, d, 3)(r, n)
	for i := range n {
		v := 7.0
		if i%20 == 0 {
			v += 3 * math.Copysign(1, r.NormFloat64())
		}
		x.Set(i, 2, v)
	}
	w, err := newWorking(x, UnitRelative)
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig(d)
	c.Finite = true
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	feed(t, l, x, c.Minibatch)
	for name, scale := range map[string][]float64{"fit": w.scale, "stream": l.metric.scale} {
		if s := scale[2]; math.Abs(s-3/math.Sqrt2) > 0.05 {
			t.Errorf("%s: scale %.3f of a column that is 3 off in a twentieth of the rows, want 2.121", name, s)
		}
	}
	if s := l.globals.sparse; len(s) != 1 || s[0].column != 2 || s[0].usual != 7 || math.Abs(s[0].share-0.05) > 1e-9 {
		t.Errorf("sparse columns %+v", s)
	}
}
