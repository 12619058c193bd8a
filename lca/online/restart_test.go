package online

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestBurst holds that anomalous rows that are soon over change nothing: they are set aside, the metric and the
// neighbours stay, and as many normal rows make them forgotten.
func TestBurst(t *testing.T) {
	const d, b = 6, 50
	r := rand.New(rand.NewPCG(1, 13))
	x := five(r, 2000, d-2)
	c := DefaultConfig(d)
	c.Neighbours, c.Minibatch, c.Recent = 400, b, false // rows that are held do not get so far
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	feed(t, l, x.Slice(0, 1500, 0, d).(*mat.Dense), b)
	pool, cl := append([]float64(nil), l.pool.Rows...), append([]float64(nil), l.cl...)
	for i := range 3 { // of the four that are believed
		odd := mat.NewDense(b, d, nil)
		odd.Apply(func(_, _ int, _ float64) float64 { return 8 * r.NormFloat64() }, odd)
		s, err := l.Learn(odd, sequence(1<<20+i*b, b), nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Quarantined != b || s.Alarm != AlarmNone || s.Learnt > 0 {
			t.Fatalf("minibatch %d of the burst: %+v", i, s)
		}
	}
	if !slices.Equal(l.pool.Rows, pool) || !slices.Equal(l.cl, cl) {
		t.Error("the burst changed the metric or the neighbours")
	}
	for i := 1500; i < 1650; i += b {
		s, err := l.Learn(x.Slice(i, i+b, 0, d).(*mat.Dense), sequence(i, b), nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := 1600 - i; s.Learnt != b || l.warm.Len() != want || len(l.warm.X) != want*d {
			t.Errorf("row %d: %d rows learnt, %d still set aside, want %d", i, s.Learnt, len(l.warm.IDs), want)
		}
	}
	if a := l.Info().Alarms; a != 0 {
		t.Errorf("%d alarms", a)
	}
}

// TestPatience holds for how long a change must last before it is believed.
func TestPatience(t *testing.T) {
	const d, b = 6, 50
	for _, c := range []struct {
		name   string
		preset lca.Preset
		rows   int
		want   int
	}{
		{"the metric preset", lca.PresetMetric, lca.Auto, 200},
		{"the density preset", lca.PresetDensity, lca.Auto, 1000},
		{"rows that are given", lca.PresetDensity, 650, 650},
		{"fewer rows than a warm-up", lca.PresetMetric, 1, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := DefaultConfig(d)
			config.Preset, config.DriftRows, config.Neighbours, config.Minibatch, config.Recent = c.preset, c.rows, 400, b, false
			l, err := NewLearner(config)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(5, 13))
			feed(t, l, five(r, 1500, d-2), b)
			now := mixture(3, d, 4)(r, 1200)
			believed := 0
			for i := 0; i < 1200 && believed == 0; i += b {
				s, err := l.Learn(now.Slice(i, i+b, 0, d).(*mat.Dense), sequence(1<<20+i, b), nil)
				if err != nil {
					t.Fatal(err)
				}
				if s.Alarm != AlarmNone {
					believed = i + b
				}
			}
			if believed != c.want {
				t.Errorf("believed after %d rows, want %d", believed, c.want)
			}
		})
	}
}

// TestRenewalContinues holds that a learner restored while rows are set aside goes on as one that was
// never interrupted, and that the current metric stays until they are believed.
func TestRenewalContinues(t *testing.T) {
	const d, b = 6, 50
	r := rand.New(rand.NewPCG(2, 13))
	c := DefaultConfig(d)
	c.Neighbours, c.Minibatch, c.Recent = 400, b, false
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
		s, err := whole.Learn(part, sequence(1<<20+i, b), nil)
		if err != nil {
			t.Fatal(err)
		}
		if (s.Alarm == AlarmDrift) != (i == 150) || s.Quarantined != map[bool]int{true: b}[i < 200] {
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
			if _, err := resumed.Learn(part, sequence(1<<20+i, b), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !bytes.Equal(stateOf(t, whole), stateOf(t, resumed)) {
		t.Error("the interrupted learner went another way")
	}
}
