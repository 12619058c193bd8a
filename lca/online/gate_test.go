package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestRareColumns holds that the gate costs nothing where columns are zero except in one row of a hundred: no
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
	for _, gate := range []float64{lca.Auto, math.Inf(1), 100} {
		c := streamConfig(d)
		c.OutlierGate, c.Finite = gate, true
		m := learned(t, c, x, sequence(0, n))
		nll[gate] = -stat.Mean(m.LogDensity(nil, fresh), nil)
		if gate == lca.Auto && m.Info.Gated > 0 {
			t.Errorf("%d of %d rows taken for outliers", m.Info.Gated, n)
		}
	}
	t.Logf("NLL %.2f, without a gate %.2f, with one in kernel widths %.2f", nll[lca.Auto], nll[math.Inf(1)], nll[100])
	if !(nll[lca.Auto] <= nll[math.Inf(1)]+0.1) {
		t.Errorf("NLL %.2f, without a gate %.2f", nll[lca.Auto], nll[math.Inf(1)])
	}
	if !(nll[100] > nll[lca.Auto]+1) {
		t.Error("a gate in kernel widths does no harm here: this is no test any more")
	}
}

// TestSparseScale holds that a sparse column is measured as if half of the rows differed.
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
	c := DefaultConfig(d)
	c.Finite = true
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	feed(t, l, x, c.Minibatch)
	if s := l.metric.Scale[2]; math.Abs(s-3/math.Sqrt2) > 0.05 {
		t.Errorf("scale %.3f of a column that is 3 off in a twentieth of the rows, want 2.121", s)
	}
	if s := l.moments.sparse; len(s) != 1 || s[0].Column != 2 || s[0].Usual != 7 || math.Abs(s[0].Share-0.05) > 1e-9 {
		t.Errorf("sparse columns %+v", s)
	}
}

// TestNothingPasses holds that a minibatch of which no row passes the gate is survived and changes nothing that
// is learnt, and that the stream then goes on.
func TestNothingPasses(t *testing.T) {
	const d, b = 12, 50
	for name, change := range map[string]func(*Config){
		"gate by C_G":                       func(*Config) {},
		"gate by C_G, drift off":            func(c *Config) { c.Drift = false },
		"gate in kernel widths":             func(c *Config) { c.OutlierGate = 30 },
		"gate in kernel widths, drift off":  func(c *Config) { c.OutlierGate, c.Drift = 30, false },
		"gate in kernel widths, finite set": func(c *Config) { c.OutlierGate, c.Drift, c.Finite = 30, false, true },
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig(d)
			c.Neighbours, c.Minibatch, c.Recent = 400, b, false // of the last rows nothing is known that could hold them
			change(&c)
			l, err := NewLearner(c)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(6, 14))
			x := five(r, 1600, d-2)
			feed(t, l, x.Slice(0, 1500, 0, d).(*mat.Dense), b)
			if l.metric.parzen == d {
				t.Fatal("no Gaussian direction: not the case that is meant")
			}
			cl := append([]float64(nil), l.cl...)
			far := mat.NewDense(b, d, nil)
			far.Apply(func(_, _ int, _ float64) float64 { return 1e5 * r.NormFloat64() }, far)
			s, err := l.Learn(far, sequence(1<<20, b), nil)
			if err != nil || s.Learnt > 0 || s.Gated+s.Quarantined != b {
				t.Fatalf("%+v: %v", s, err)
			}
			for k, v := range l.cl {
				if v != cl[k] {
					t.Fatal("C_L changed")
				}
			}
			if s, err = l.Learn(x.Slice(1500, 1550, 0, d).(*mat.Dense), sequence(1500, b), nil); err != nil || s.Learnt < b-5 {
				t.Errorf("%d rows learnt afterwards: %v", s.Learnt, err)
			}
		})
	}
}
