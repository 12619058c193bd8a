package online

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/lca-stream/lca-stream/lca"
)

// The warm-up rows alone, once they suffice, give the model that Fit finds for them.
func TestSettleEqualsFit(t *testing.T) {
	x := five(rand.New(rand.NewPCG(3, 1)), 400, 3)
	c := policies(5)
	c.WarmupRows, c.Precision = 400, lca.Float64
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	feed(t, l, x, 100)
	m, err := l.Model()
	if err != nil {
		t.Fatalf("no model after the warm-up: %v", err)
	}
	f, err := lca.Fit(context.Background(), x, c.Fit())
	if err != nil {
		t.Fatal(err)
	}
	// settle stops when a step gains less than 1e-3 nats, Fit at 1e-6: EM is then within a few steps
	// of the end, which is hundredths of a nat.
	if got, want := m.LeaveOneOutNLL(x), f.LeaveOneOutNLL(x); got-want > 0.03 || want-got > 0.03 {
		t.Errorf("leave-one-out NLL %.4f after the warm-up, Fit has %.4f", got, want)
	}
	if m.Parzen() != f.Parzen() {
		t.Errorf("d_P = %d, Fit has %d", m.Parzen(), f.Parzen())
	}
}

// Where the caller counts the steps, or rows are few, the first update is the first minibatch.
func TestSettleWaits(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"plain":                    func(c *Config) { c.Plain = true },
		"no memory":                func(c *Config) { c.Gamma = 0 },
		"few rows per column":      func(c *Config) { c.WarmupRows = 90 },
		"as many as are collected": func(c *Config) { c.WarmupRows = 201 },
	} {
		t.Run(name, func(t *testing.T) {
			c := policies(5)
			change(&c)
			l, err := NewLearner(c)
			if err != nil {
				t.Fatal(err)
			}
			x := five(rand.New(rand.NewPCG(3, 2)), 200, 3)
			rows := 200
			if c.WarmupRows == 90 {
				rows = 90
			}
			feed(t, l, mat.DenseCopyOf(x.Slice(0, rows, 0, 5)), 30)
			if _, err := l.Model(); !errors.Is(err, ErrWarmup) {
				t.Errorf("Model after %d rows: %v, want ErrWarmup", rows, err)
			}
		})
	}
}

// A fault that lasts for hundreds of rows is not learnt for a score, and becomes normal where a change is
// believed soon.
func TestLastingFault(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	normal, fault := five(r, 1500, 3), five(r, 500, 3)
	fault.Apply(func(_, j int, v float64) float64 {
		if j == 4 {
			return 0.3*v + 12
		}
		return v
	}, fault)
	for name, change := range map[string]func(*Config){
		"density": func(*Config) {}, "density, drift off": func(c *Config) { c.Drift = false }, "soon": func(c *Config) { c.DriftRows = 300 },
	} {
		t.Run(name, func(t *testing.T) {
			c := policies(5)
			c.Preset = lca.PresetDensity
			change(&c)
			l, err := NewLearner(c)
			if err != nil {
				t.Fatal(err)
			}
			feed(t, l, normal, 100)
			learnt := 0
			for i := 0; i < 500; i += 100 {
				s, err := l.Learn(mat.DenseCopyOf(fault.Slice(i, i+100, 0, 5)), sequence(1500+i, 100), nil)
				if err != nil {
					t.Fatal(err)
				}
				learnt += s.Learnt
			}
			m, err := l.Model()
			if err != nil {
				t.Fatal(err)
			}
			usual, strange := stat.Mean(m.LogDensity(nil, normal), nil), stat.Mean(m.LogDensity(nil, fault), nil)
			if name == "soon" && (learnt < 450 || usual-strange > 5) {
				t.Errorf("%d of 500 rows learnt, the fault %.1f nats below the normal: it was not learnt", learnt, usual-strange)
			}
			if name != "soon" && (learnt > 50 || usual-strange < 20) {
				t.Errorf("%d of 500 rows learnt, the fault only %.1f nats below the normal", learnt, usual-strange)
			}
		})
	}
}
