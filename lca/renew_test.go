package lca

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestBurst holds that odd rows that are soon over raise an alarm and change nothing else: the metric
// and the neighbours stay.
func TestBurst(t *testing.T) {
	const d, b = 6, 50
	r := rand.New(rand.NewPCG(1, 13))
	x := five(r, 2000, d-2)
	c := DefaultConfig(d)
	c.Neighbours, c.Minibatch = 400, b
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	feed(t, l, x.Slice(0, 1500, 0, d).(*mat.Dense), b)
	pool, cl := append([]float64(nil), l.pool.rows...), append([]float64(nil), l.cl...)
	odd := mat.NewDense(b, d, nil)
	odd.Apply(func(_, _ int, _ float64) float64 { return 8 * r.NormFloat64() }, odd)
	s, err := l.Learn(odd, sequence(1<<20, b))
	if err != nil {
		t.Fatal(err)
	}
	if !s.Alarm || !s.Warmup {
		t.Fatalf("no alarm at the burst: %+v", s)
	}
	for i := 1500; i < 1650; i += b { // with the burst's, 200 rows
		if s, err = l.Learn(x.Slice(i, i+b, 0, d).(*mat.Dense), sequence(i, b)); err != nil {
			t.Fatal(err)
		}
	}
	if l.renewal.minibatches > 0 || len(l.warm.ids) > 0 {
		t.Error("the burst is over, but the stream does not go on")
	}
	if !slices.Equal(l.pool.rows, pool) || !slices.Equal(l.cl, cl) {
		t.Error("the burst changed the metric or the neighbours")
	}
	if s, err = l.Learn(x.Slice(1650, 1700, 0, d).(*mat.Dense), sequence(1650, b)); err != nil || s.Learnt != b {
		t.Errorf("%d rows learnt after the burst: %v", s.Learnt, err)
	}
	if a := l.Info().Alarms; a != 1 {
		t.Errorf("%d alarms", a)
	}
}

// TestFiniteHasNoDrift holds that a set that is replayed is learnt whole, whatever its order.
func TestFiniteHasNoDrift(t *testing.T) {
	const d = 6
	c := DefaultConfig(d)
	c.Neighbours, c.Finite = 400, true
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 13))
	x := new(mat.Dense)
	x.Stack(mixture(3, d, 4)(r, 1500), mixture(4, d, 4)(r, 1500))
	feed(t, l, x, c.Minibatch)
	want := make([]float64, d)
	meanOf(want, dense(x), d)
	if i := l.Info(); i.Alarms > 0 || i.Learnt < 2700 {
		t.Errorf("%d alarms, %d of 3000 rows learnt", i.Alarms, i.Learnt)
	}
	for k := range want {
		if off := l.globals.mean[k] - want[k]; off > 0.05 || off < -0.05 {
			t.Errorf("mean of column %d is off by %g", k, off)
		}
	}
}

// TestRenewalContinues holds that a learner restored between an alarm and the new start goes on as
// one that was never interrupted, and that the metric in force stays until then.
func TestRenewalContinues(t *testing.T) {
	const d, b = 6, 50
	r := rand.New(rand.NewPCG(2, 13))
	c := DefaultConfig(d)
	c.Neighbours, c.Minibatch = 400, b
	whole, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	feed(t, whole, five(r, 1500, d-2), b)
	before, err := whole.Model()
	if err != nil {
		t.Fatal(err)
	}
	now := mixture(3, d, 4)(r, 400)
	resumed, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 400; i += b {
		part := now.Slice(i, i+b, 0, d).(*mat.Dense)
		s, err := whole.Learn(part, sequence(1<<20+i, b))
		if err != nil {
			t.Fatal(err)
		}
		if s.Alarm != (i == 0) || s.Warmup != (i < 200) {
			t.Errorf("row %d: %+v", i, s)
		}
		if i == b {
			m, err := whole.Model()
			if err != nil || !mat.Equal(m.BL, before.BL) {
				t.Errorf("another metric while rows are collected: %v", err)
			}
			if err := resumed.UnmarshalBinary(stateOf(t, whole)); err != nil {
				t.Fatal(err)
			}
		}
		if i > b {
			if _, err := resumed.Learn(part, sequence(1<<20+i, b)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !bytes.Equal(stateOf(t, whole), stateOf(t, resumed)) {
		t.Error("the interrupted learner went another way")
	}
}
