package online

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

const still, stays = 2, 3.3 // a column that does not move, and where it stays

// valved is a machine of four sensors and a valve that has never moved, in the column still.
func valved(t *testing.T, change func(*Config)) (m *machine, normal func() []float64) {
	m = newMachine(t, 21, 5, 0, func(c *Config) { c.Neighbours, c.Recent = 1000, false; change(c) })
	return m, func() []float64 {
		x := m.next()
		x[still] = stays
		return x
	}
}

// judged returns the share of pairs of a row in which the valve is at a value and a normal row of which the first scores more, and the share of the former
// in which Why names the valve first.
func judged(m *machine, normal func() []float64, moved float64) (auc, named float64) {
	const n = 200
	model, err := m.l.Model()
	if err != nil {
		m.t.Fatal(err)
	}
	scorer, scores, gains := model.NewScorer(), make([]float32, 2*n), make([]lca.Gain, 2*n)
	x := make([]float64, 0, 10*n)
	for i := range 2 * n {
		row := normal()
		if i < n {
			row[still] = moved
		}
		x = append(x, row...)
	}
	scorer.Score(nil, scores, x, 2*n)
	scorer.Why(gains, x, 2*n)
	for i, s := range scores[:n] {
		for _, o := range scores[n:] {
			if s > o {
				auc += 1. / n / n
			}
		}
		if gains[i].Column == still {
			named += 1. / n
		}
	}
	return auc, named
}

// mostly draws rows of which a share has the valve somewhere else.
func mostly(m *machine, normal func() []float64, share float64, at func() float64) func() []float64 {
	return func() []float64 {
		x := normal()
		if m.r.Float64() < share {
			x[still] = at()
		}
		return x
	}
}

// TestConstantColumn holds what becomes of a column that has been constant for 5000 rows, with both presets, on a stream and on a finite set: as long as it
// moves now and then it stays constant, whatever the values, and each move is the clearest anomaly. One that leaves for good, or begins to vary, is learnt after as many
// rows as any change. So is one that moves in one row of thirty, once enough of them have come.
func TestConstantColumn(t *testing.T) {
	for _, preset := range some(1, lca.PresetMetric, lca.PresetDensity) {
		for _, finite := range []bool{false, true} {
			t.Run(fmt.Sprint(preset, " finite ", finite), func(t *testing.T) {
				t.Parallel()
				m, normal := valved(t, func(c *Config) { c.Preset, c.Finite = preset, finite })
				anomalous := func(what string) {
					t.Helper()
					if got := m.l.metric.Constant(5); !slices.Equal(got, []int{still}) {
						t.Errorf("%s: constant columns %v", what, got)
					}
					for _, moved := range []float64{300, 3.4, 0} {
						if auc, named := judged(m, normal, moved); auc < 0.99 || named < 1 {
							t.Errorf("%s: a row at %v scores more than a normal one with probability %.3f, and the column is first in %.3f", what, moved, auc, named)
						}
					}
				}
				m.learn(5000, normal)
				anomalous("before it has moved")
				if learnt, alarms := m.learn(5000, mostly(m, normal, 0.002, func() float64 { return 1e30 * m.r.NormFloat64() })); learnt < 4900 || len(alarms) > 0 {
					t.Errorf("%d of 5000 rows learnt, of which 10 have moved; alarms %v", learnt, alarms)
				}
				anomalous("after single moves, however far")
				patience := m.l.patience()
				m.learn(patience/2, mostly(m, normal, 1, func() float64 { return 300 }))
				m.learn(1000, normal)
				anomalous("after half as many rows as a change must last")
				later := mostly(m, normal, 1, func() float64 { return 300 })
				_, alarms := m.learn(patience+300, later)
				switch auc, _ := judged(m, normal, 300); {
				case !finite && (auc > 0.9 || len(alarms) != 1):
					t.Errorf("after it has left for good: AUC %.3f, alarms %v", auc, alarms)
				case finite && len(m.l.metric.Constant(5)) > 0: // rows at 300 are a small part of the set, and rare
					t.Error("it has left for good, and is constant in a finite set")
				}
				if learnt, alarms := m.learn(3000, later); learnt < 2900 || len(alarms) > 0 {
					t.Errorf("%d of 3000 rows learnt after the change, alarms %v", learnt, alarms)
				}
			})
			t.Run(fmt.Sprint(preset, " finite ", finite, " varies"), func(t *testing.T) {
				t.Parallel()
				for _, c := range []struct {
					constant int // rows
					share    float64
					rows     int // after which it is learnt
				}{
					{600, 1, 100}, {900, 0.02, 300}, // it was constant at the start alone
					{5000, 1, 1400}, {5000, 0.03, 8000},
				} {
					m, normal := valved(t, func(c *Config) { c.Preset, c.Finite = preset, finite })
					m.learn(c.constant, normal)
					varies := mostly(m, normal, c.share, func() float64 { return stays + m.r.NormFloat64() })
					m.learn(c.rows, varies)
					if got := m.l.metric.Constant(5); len(got) > 0 {
						t.Errorf("%+v: constant columns %v", c, got)
						continue
					}
					if learnt, _ := m.learn(3000, varies); learnt < 2850 {
						t.Errorf("%+v: %d of 3000 rows learnt", c, learnt)
					}
				}
			})
		}
	}
}

// TestConstantColumnReturns holds that a column that goes back to where it was constant is the former regime, at once.
func TestConstantColumnReturns(t *testing.T) {
	m, normal := valved(t, func(*Config) {})
	m.learn(5000, normal)
	if _, alarms := m.learn(3000, mostly(m, normal, 1, func() float64 { return 5 })); !slices.Equal(alarms, []Alarm{AlarmDrift}) {
		t.Fatal(alarms)
	}
	if _, alarms := m.learn(200, normal); !slices.Equal(alarms, []Alarm{AlarmRegimeReturned}) {
		t.Errorf("alarms %v", alarms)
	}
	if auc, named := judged(m, normal, 5); auc < 0.99 || named < 1 {
		t.Errorf("a row at 5 scores more than a normal one with probability %.3f, and the column is first in %.3f", auc, named)
	}
	if _, alarms := m.learn(1500, mostly(m, normal, 1, func() float64 { return 9 })); !slices.Equal(alarms, []Alarm{AlarmDrift}) {
		t.Errorf("alarms %v: the regime at 5 does not know rows at 9", alarms)
	}
}

// TestKnownGoodConstant holds that a learner that learns nothing new does not learn that a column moves either.
func TestKnownGoodConstant(t *testing.T) {
	m, normal := valved(t, func(c *Config) { c.Drift, c.OutlierGate, c.WarmupRows = false, 20, 400 })
	m.learn(500, normal)
	m.learn(4000, mostly(m, normal, 0.05, func() float64 { return 4 }))
	m.learn(4000, mostly(m, normal, 1, func() float64 { return 4 }))
	if auc, named := judged(m, normal, 4); auc < 0.99 || named < 1 {
		t.Errorf("a row at 4 scores more than a normal one with probability %.3f, and the column is first in %.3f", auc, named)
	}
	if learnt, _ := m.learn(1000, normal); learnt < 950 {
		t.Errorf("%d of 1000 rows learnt afterwards", learnt)
	}
}

// TestConstantColumnCostsNoBits holds that a constant column changes no bit of what is learnt of the others, but where it has moved.
func TestConstantColumnCostsNoBits(t *testing.T) {
	const d, rows = 4, 1500
	x := mixture(5, d, 3)(newMachine(t, 1, d, 0, func(*Config) {}).r, rows)
	models := map[float64]*lca.Model{}
	for _, at := range []float64{0, 1.7e15} {
		wide := mat.NewDense(rows, d+1, nil)
		for i := range rows {
			wide.SetRow(i, append(slices.Clone(x.RawRowView(i)), at))
		}
		models[at] = learned(t, streamConfig(d+1), wide, sequence(0, rows))
	}
	a, b := models[0], models[1.7e15]
	if !mat.Equal(a.CL, b.CL) || !mat.Equal(a.W, b.W) || math.Float64bits(a.Info.NLL) != math.Float64bits(b.Info.NLL) {
		t.Error("the level of a constant column changes what is learnt")
	}
}
