package online

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// TestFiniteSetJoins holds that a finite set of two halves is learnt whole, although neither is like the other.
func TestFiniteSetJoins(t *testing.T) {
	const d = 6
	for _, preset := range []lca.Preset{lca.PresetMetric, lca.PresetDensity} {
		c := DefaultConfig(d)
		c.Preset, c.Neighbours, c.Finite = preset, 400, true
		l, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(4, 13))
		x := new(mat.Dense)
		x.Stack(mixture(3, d, 4)(r, 1500), mixture(4, d, 4)(r, 1500))
		joined := 0
		for i := 0; i < 3000; i += c.Minibatch {
			s, err := l.Learn(x.Slice(i, i+c.Minibatch, 0, d).(*mat.Dense), sequence(i, c.Minibatch), nil)
			if err != nil {
				t.Fatal(err)
			}
			joined += s.Joined
		}
		l.Close()
		want := make([]float64, d)
		prop1.Mean(want, make([]float64, d), linalg.Elements(x), d)
		if i := l.Info(); i.Alarms > 0 || i.Learnt < 2700 || joined < c.driftRows() || l.Quarantined() > 0 {
			t.Errorf("%v: %d alarms, %d of 3000 rows learnt, %d of them joined, %d are set aside", preset, i.Alarms, i.Learnt, joined, l.Quarantined())
		}
		for k := range want {
			if off := l.moments.mean[k] - want[k]; off > 0.1 || off < -0.1 {
				t.Errorf("%v: mean of column %d is off by %g", preset, k, off)
			}
		}
	}
}

// TestFiniteSetWithoutFault holds that a fault is left out of a finite set in every pass: the model is, bit for bit, that of the
// set without its minibatches.
func TestFiniteSetWithoutFault(t *testing.T) {
	const d, b, rows, fault = 6, 50, 3000, 300
	r := rand.New(rand.NewPCG(1, 13))
	sound := five(r, rows, d-2)
	odd := mat.NewDense(fault, d, nil)
	odd.Apply(func(_, _ int, _ float64) float64 { return 8 * r.NormFloat64() }, odd)
	for _, drift := range []bool{true, false} {
		learn := func(faulty bool) (l *Learner, released int) {
			c := DefaultConfig(d)
			c.Preset, c.Neighbours, c.Minibatch, c.Finite, c.Drift = lca.PresetDensity, 400, b, true, drift
			l, err := NewLearner(c)
			if err != nil {
				t.Fatal(err)
			}
			step := func(x mat.Matrix, first int) {
				s, err := l.Learn(mat.DenseCopyOf(x), sequence(first, b), nil)
				if err != nil {
					t.Fatal(err)
				}
				released += s.Released
			}
			for pass := range 2 {
				if pass > 0 {
					released += l.NextPass()
				}
				for i := 0; i < rows; i += b {
					step(sound.Slice(i, i+b, 0, d), i)
					for k := 0; faulty && i == 2000 && k < fault; k += b {
						step(odd.Slice(k, k+b, 0, d), 1<<20+k)
					}
				}
			}
			l.Close()
			return l, released
		}
		with, released := learn(true)
		without, none := learn(false)
		if released-none != 2*fault || with.Quarantined() != 0 {
			t.Errorf("drift %v: %d rows are given up, and %d without a fault", drift, released, none)
		}
		if !slices.Equal(with.cl, without.cl) || !slices.Equal(with.moments.mean, without.moments.mean) {
			t.Errorf("drift %v: the fault has changed what is learnt", drift)
		}
	}
}

// TestNextPass holds that a row has the same place in time in each pass, and that a change at the end of a pass does
// not go on with the first rows of the next one.
func TestNextPass(t *testing.T) {
	const d, rows = 4, 2000
	c := DefaultConfig(d)
	c.Neighbours, c.Finite = 400, true
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := rand.New(rand.NewPCG(7, 13))
	x := five(r, rows, d-2)
	for i := rows - 100; i < rows; i++ {
		x.Set(i, 1, 50*r.NormFloat64())
	}
	feed(t, l, x, c.Minibatch)
	if waiting := l.Quarantined(); waiting != 100 {
		t.Fatalf("%d rows are set aside, want the last 100: not the case that is meant", waiting)
	}
	if released := l.NextPass(); released != 100 || l.Quarantined() != 0 {
		t.Errorf("%d rows are given up, %d are still set aside", released, l.Quarantined())
	}
	feed(t, l, x, c.Minibatch)
	for i, id := range l.pool.IDs() {
		if at := l.pool.Places[i].At; at != uint64(slices.Index(sequence(0, rows), id)) {
			t.Fatalf("row %d of the set is at place %d in time", slices.Index(sequence(0, rows), id), at)
		}
	}
}
