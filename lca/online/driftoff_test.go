package online

import (
	"math"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
)

// TestFrozenWithDriftOff holds that a feed which freezes is not learnt with Drift off, with or without noise, however long that lasts, and that all is as before
// when it is over.
func TestFrozenWithDriftOff(t *testing.T) {
	for _, gate := range some[float64](1, lca.Auto, 20) {
		for _, noise := range []float64{0, .02} {
			if gate == lca.Auto && noise == 0 {
				continue // as TestStuckWithDriftOff
			}
			m := newMachine(t, 7, 8, .3, func(c *Config) { c.WarmupRows, c.OutlierGate, c.Drift, c.Recent = 400, gate, false, false })
			m.learn(6037, m.next)
			last := m.next()
			m.fill(m.at(last, noise))
			frozen, alarms := m.learn(8000, m.at(last, noise))
			if frozen > 0 || !slices.Equal(alarms, []Alarm{AlarmRefused}) {
				t.Errorf("gate %v, noise %v: %d frozen rows learnt, alarms %v", gate, noise, frozen, alarms)
			}
			if learnt, alarms := m.learn(3000, m.next); learnt < 2900 || len(alarms) > 0 {
				t.Errorf("gate %v, noise %v: %d of 3000 rows learnt afterwards, alarms %v", gate, noise, learnt, alarms)
			}
		}
	}
}

// TestNothingNewWithDriftOff holds that a fault which comes and goes is not learnt with Drift off, however many rows of it there are: rows that are refused have no
// company.
func TestNothingNewWithDriftOff(t *testing.T) {
	for _, share := range some(1, .06, .03, .09) {
		m := newMachine(t, 1, 6, .8, func(c *Config) { c.Neighbours, c.Drift, c.Recent = 1000, false, false })
		m.learn(4000, m.next)
		faults := 0
		learnt, _ := m.learn(12_000, func() []float64 {
			x := m.next()
			if m.r.Float64() < share {
				x[1] += 30
				faults++
			}
			return x
		})
		if learnt > 12_000-faults {
			t.Errorf("share %v: %d rows learnt of %d that are normal", share, learnt, 12_000-faults)
		}
	}
}

// TestStuckWithDriftOff holds that the alarm for rows that are refused comes where a column, or all, stand still, or a part of the rows is at fault.
func TestStuckWithDriftOff(t *testing.T) {
	for _, gate := range some[float64](1, lca.Auto, 20) {
		for _, seed := range some[uint64](1, 1, 2) {
			for name, columns := range map[string]int{"one column": 1, "all columns": 3} {
				m := newMachine(t, seed, 3, .8, func(c *Config) { c.Neighbours, c.OutlierGate, c.Drift, c.Recent = 1000, gate, false, false })
				m.learn(5000, m.next)
				last := m.next()
				stuck := func() []float64 { x := m.next(); copy(x, last[:columns]); return x }
				m.fill(stuck)
				if learnt, alarms := m.learn(2500, stuck); learnt > 0 || !slices.Equal(alarms, []Alarm{AlarmRefused}) {
					t.Errorf("gate %v, seed %d, %s: %d rows learnt, alarms %v", gate, seed, name, learnt, alarms)
				}
			}
		}
	}
	m := newMachine(t, 1, 6, .3, func(c *Config) { c.Neighbours, c.Drift, c.Recent = 1000, false, false })
	m.learn(5000, m.next)
	if _, alarms := m.learn(12_000, func() []float64 {
		x := m.next()
		if m.r.Float64() < .2 {
			x[1] += 30
		}
		return x
	}); !slices.Equal(alarms, []Alarm{AlarmRefused}) {
		t.Errorf("alarms %v where a fifth of the rows is at fault", alarms)
	}
}

// TestStuckAfterHolding holds that a column which holds each value for half of a minibatch is stuck if it holds one much longer, with Drift off as well.
func TestStuckAfterHolding(t *testing.T) {
	for _, c := range some(1, []struct{ minibatch, hold int }{{100, 50}, {20, 12}}...) {
		m := newMachine(t, 1, 6, .8, func(f *Config) { f.Neighbours, f.Minibatch, f.Drift, f.Recent = 1000, c.minibatch, false, false })
		left, value := 0, 0.0
		held := func() []float64 {
			x := m.next()
			if left--; left < 0 {
				left, value = int(float64(c.hold)*(.7+.6*m.r.Float64())), x[2]
			}
			x[2] = value
			return x
		}
		m.learn(8000, held)
		stuck := func() []float64 { x := m.next(); x[2] = value; return x }
		m.fill(stuck)
		if learnt, alarms := m.learn(3000, stuck); learnt > 200 || !slices.Equal(alarms, []Alarm{AlarmRefused}) {
			t.Errorf("minibatches of %d rows: %d of 3000 learnt, alarms %v", c.minibatch, learnt, alarms)
		}
		if learnt, _ := m.learn(2000, held); learnt < 1900 {
			t.Errorf("minibatches of %d rows: %d of 2000 learnt afterwards", c.minibatch, learnt)
		}
	}
}

// TestNarrowGateIsSaid holds that a gate which refuses about half of all rows raises the alarm that says so, whatever returns meanwhile.
func TestNarrowGateIsSaid(t *testing.T) {
	m := newMachine(t, 3, 8, .5, func(c *Config) { c.OutlierGate, c.Drift, c.Recent = 5, false, false })
	if _, alarms := m.learn(20_000, func() []float64 { // three degrees of freedom
		x, square := m.next(), 0.0
		for range 3 {
			v := m.r.NormFloat64()
			square += v * v
		}
		for k := range x {
			x[k] /= math.Sqrt(square / 3)
		}
		return x
	}); !slices.Contains(alarms, AlarmRefused) {
		t.Errorf("alarms %v, want %v", alarms, AlarmRefused)
	}
}
