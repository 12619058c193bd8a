package online

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/lca-stream/lca-stream/lca"
)

// TestOldLevelWithDriftOff holds that rows at a level of long ago do not cost the model of now with Drift off: what is kept may return for them, and then what it
// has replaced returns as soon; a row now and then is nothing but refused. A learner that is restored has the same state.
func TestOldLevelWithDriftOff(t *testing.T) {
	for _, gate := range some[float64](1, lca.Auto, 20) {
		for _, minibatch := range some(1, 100, 1) {
			t.Run(fmt.Sprint(gate, minibatch), func(t *testing.T) {
				seed, rise := uint64(1), 20_000
				if minibatch == 1 { // which is slow
					seed, rise = 2, 12_000
				}
				m := newMachine(t, seed, 3, .8, func(c *Config) { c.Neighbours, c.Minibatch, c.OutlierGate, c.Drift = 500, minibatch, gate, false })
				level := 0.0
				now := func() []float64 { x := m.next(); x[0] += level; return x }
				m.learn(4000, now)
				m.learn(rise, func() []float64 { level += 20 / float64(rise); return now() })
				old := m.next
				if minibatch == 1 {
					old = func() []float64 {
						if m.r.Float64() < .01 {
							return m.next()
						}
						return now()
					}
				}
				m.learn(150, old)
				other := *m
				other.l = restored(t, m.l, stateOf(t, m.l))
				var rows [][]float64
				for range 3000 {
					rows = append(rows, now())
				}
				for _, one := range []*machine{m, &other} {
					at := 0
					if learnt, alarms := one.learn(3000, func() []float64 { at++; return rows[at-1] }); learnt < 2800 || len(alarms) > 1 {
						t.Errorf("%d of 3000 rows learnt afterwards, alarms %v", learnt, alarms)
					}
				}
				if !bytes.Equal(stateOf(t, m.l), stateOf(t, other.l)) {
					t.Error("a learner that was restored has another state")
				}
			})
		}
	}
}

// TestWearTwiceWithDriftOff holds that the model of now comes back also where it is not the first that was replaced: a machine that wore and was repaired wears
// elsewhere, and some rows are as they were before the repair.
func TestWearTwiceWithDriftOff(t *testing.T) {
	m := newMachine(t, 2, 3, .3, func(c *Config) { c.Neighbours, c.Drift = 500, false })
	var level [3]float64
	draw := func() []float64 {
		x := m.next()
		for k := range x {
			x[k] += level[k]
		}
		return x
	}
	wear := func(k int) {
		const rise = 20_000
		m.learn(rise, func() []float64 { level[k] += 20. / rise; return draw() })
	}
	m.learn(4000, draw)
	wear(0)
	level[0] = 0
	m.learn(3000, draw)
	wear(2)
	level = [3]float64{20, 0, 0}
	m.learn(100, draw)
	level = [3]float64{0, 0, 20}
	if learnt, _ := m.learn(3000, draw); learnt < 2800 {
		t.Errorf("%d of 3000 rows learnt afterwards", learnt)
	}
}

// TestHeldIsOfDriftOff holds that rows which were refused with Drift off are no candidates for the pool of a learner that reads the state with Drift on.
func TestHeldIsOfDriftOff(t *testing.T) {
	m := newMachine(t, 1, 3, .3, func(c *Config) { c.Neighbours, c.Drift = 500, false })
	m.learn(3000, m.next)
	m.learn(500, m.at([]float64{40, 0, 0}, 1))
	if m.l.held.Len() == 0 {
		t.Fatal("no row that was refused is held")
	}
	on := m.l.asked
	on.Drift = true
	l, err := NewLearner(on)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.UnmarshalBinary(stateOf(t, m.l)); err != nil || l.held.Len() > 0 {
		t.Errorf("%d rows are held: %v", l.held.Len(), err)
	}
}

// TestQuietRestWithDriftOff holds that rows at rest which are known are learnt with Drift off, although none of them is far and they have not come for long.
func TestQuietRestWithDriftOff(t *testing.T) {
	for _, seed := range some[uint64](1, 1, 2) {
		m := newMachine(t, seed, 6, .8, func(c *Config) { c.Neighbours, c.OutlierGate, c.Drift = 1000, 20, false })
		rest := func() []float64 {
			x := m.next()
			for k := range x {
				x[k] *= .05
			}
			return x
		}
		for range 8 {
			m.learn(150, rest)
			m.learn(350, m.next)
		}
		m.learn(6000, m.next)
		if learnt, _ := m.learn(1000, rest); learnt < 900 {
			t.Errorf("seed %d: %d of 1000 rows at rest learnt", seed, learnt)
		}
		if learnt, _ := m.learn(2000, m.next); learnt < 1600 {
			t.Errorf("seed %d: %d of 2000 rows learnt afterwards", seed, learnt)
		}
	}
}

// TestStuckAfterHolding holds that a column which holds each value for half of a minibatch is stuck if it holds one much longer, with Drift off as well.
func TestStuckAfterHolding(t *testing.T) {
	for _, c := range some(1, []struct{ minibatch, hold int }{{100, 50}, {20, 12}}...) {
		m := newMachine(t, 1, 6, .8, func(f *Config) { f.Neighbours, f.Minibatch, f.Drift = 1000, c.minibatch, false })
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
	m := newMachine(t, 3, 8, .5, func(c *Config) { c.OutlierGate, c.Drift = 5, false })
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

// TestShiftWithDriftOff holds that what is kept does not return for a shift of all columns that it knows as little.
func TestShiftWithDriftOff(t *testing.T) {
	for _, seed := range []uint64{2, 4} {
		m := newMachine(t, seed, 6, .5, func(c *Config) { c.Neighbours, c.Drift = 1000, false })
		m.learn(8037, m.next)
		if _, alarms := m.learn(3000, func() []float64 {
			x := m.next()
			for k := range x {
				x[k] += 1.7
			}
			return x
		}); slices.Contains(alarms, AlarmRegimeReturned) {
			t.Errorf("seed %d: alarms %v", seed, alarms)
		}
	}
}
