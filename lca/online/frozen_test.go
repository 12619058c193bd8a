package online

import (
	"fmt"
	"slices"
	"testing"
)

// Feeds that freeze repeat one row of all sensors. Each test begins with a machine that is known.

// TestFrozenAgainAndAgain holds that a feed which freezes for 600 rows now and then is refused each time.
func TestFrozenAgainAndAgain(t *testing.T) {
	for seed := uint64(1); seed <= 2; seed++ {
		m := newMachine(t, seed, 6, .8, func(*Config) {})
		for fault := range 4 {
			m.learn(5000+m.r.IntN(100), m.next)
			frozen := m.at(m.next(), 0)
			part := len(m.waiting)
			m.fill(frozen)
			if learnt, alarms := m.learn(500+part, frozen); learnt > 0 || len(alarms) > 0 {
				t.Errorf("seed %d: %d of 600 rows learnt the time %d, alarms %v", seed, learnt, fault+1, alarms)
			}
		}
	}
}

// TestStuckColumnAgainAndAgain holds the same of one column: what is learnt of one time does not make the next one known.
func TestStuckColumnAgainAndAgain(t *testing.T) {
	for seed := uint64(7); seed <= 8; seed++ {
		m := newMachine(t, seed, 6, .8, func(c *Config) { c.Neighbours = 1000 })
		for fault := range 8 {
			m.learn(3000+m.r.IntN(100), m.next)
			value := m.next()[2]
			stuck := func() []float64 { x := m.next(); x[2] = value; return x }
			part := len(m.waiting)
			m.fill(stuck)
			if learnt, _ := m.learn(300+part, stuck); learnt > 0 {
				t.Errorf("seed %d: %d of 400 rows learnt the time %d", seed, learnt, fault+1)
			}
		}
	}
}

// TestFrozenInPartitions holds that it does not matter over how many partitions the rows come.
func TestFrozenInPartitions(t *testing.T) {
	for _, parts := range []int{3, 7, 100} {
		for _, seed := range some[uint64](1, 1, 2) {
			m := newMachine(t, seed+2, 6, .8, func(c *Config) { c.Neighbours = 1000 })
			m.parts = parts
			m.learn(6037, m.next)
			frozen := m.at(m.next(), 0)
			m.fill(frozen)
			most := 1 // all other rows of a minibatch may be held, and one by itself says nothing
			if parts == 100 {
				most = m.l.cfg.Minibatch // of each partition there is one row in a minibatch
			}
			if learnt, alarms := m.learn(4000, frozen); learnt > most || slices.Contains(alarms, AlarmDrift) {
				t.Errorf("%d partitions, seed %d: %d of 4000 rows learnt, alarms %v", parts, seed, learnt, alarms)
			}
		}
	}
}

// TestFrozenFromAnyRow holds that no regime begins with a feed that has frozen, from whatever row of a minibatch on.
func TestFrozenFromAnyRow(t *testing.T) {
	for _, d := range some(1, 8, 3) {
		for _, from := range some(2, 1, 99, 50) {
			m := newMachine(t, uint64(from), d, .3, func(c *Config) { c.Neighbours = 1000 })
			m.learn(6000+from, m.next)
			if learnt, alarms := m.learn(3000, m.at(m.next(), 0)); learnt > m.l.cfg.Minibatch || slices.Contains(alarms, AlarmDrift) {
				t.Errorf("%d columns, from row %d: %d of 3000 rows learnt, alarms %v", d, from, learnt, alarms)
			}
		}
	}
}

// TestFrozenInLargeMinibatches holds the same where two minibatches are all that a change must last for.
func TestFrozenInLargeMinibatches(t *testing.T) {
	for _, from := range some(1, 150, 250) {
		m := newMachine(t, 5, 6, .3, func(c *Config) { c.Neighbours, c.Minibatch = 1000, 500 })
		m.learn(6000+from, m.next)
		if learnt, alarms := m.learn(4000, m.at(m.next(), 0)); learnt > m.l.cfg.Minibatch || slices.Contains(alarms, AlarmDrift) {
			t.Errorf("from row %d: %d of 4000 rows learnt, alarms %v", from, learnt, alarms)
		}
	}
}

// TestFrozenInSmallMinibatches holds that minibatches of fewer rows than tell anything are told by those before them.
func TestFrozenInSmallMinibatches(t *testing.T) {
	for _, b := range []int{1, 2, 5, 9, 10} {
		t.Run(fmt.Sprint(b), func(t *testing.T) {
			m := newMachine(t, 3, 6, .8, func(c *Config) { c.Neighbours, c.Minibatch = 500, b })
			m.learn(3000, m.next)
			if learnt, _ := m.learn(1500, m.at(m.next(), 0)); learnt > 30 {
				t.Errorf("%d of 1500 rows learnt", learnt)
			}
		})
	}
}
