package online

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestAlternation holds that two ways to run that take turns are learnt together, with one alarm, after each has returned, whatever
// the length of a turn, and that there is no alarm and hardly a refused row afterwards; and that a learner that is saved and read goes on with
// the same bits.
func TestAlternation(t *testing.T) {
	for _, turn := range some(1, 13, 7, 12, 15) { // minibatches; a change must last for twelve
		for _, preset := range []lca.Preset{lca.PresetDensity, lca.PresetMetric} {
			t.Run(fmt.Sprintf("%d %v", turn, preset), func(t *testing.T) {
				s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours, c.DriftRows = preset, 1000, 600 })
				one, other := s.law(3), func() *mat.Dense { return s.minibatch(4, 30) }
				var alarms []Alarm
				for i := range 6 {
					now, _ := s.learn(turn, one)
					alarms = append(alarms, now...)
					s.restore()
					now, _ = s.learn(turn, other)
					if alarms = append(alarms, now...); i%2 == 0 {
						s.restore()
					}
				}
				if n := len(alarms); n > 4 || n > 0 && (alarms[n-1] != AlarmRecurring || slices.Contains(alarms[:n-1], AlarmRecurring)) {
					t.Errorf("alarms %v, want none, where the first model knows both, or one at most for each turn and at last that both are learnt", alarms)
				}
				before, gated := len(alarms), s.l.counts.Gated
				for range 4 {
					now, _ := s.learn(turn, one)
					alarms = append(alarms, now...)
					now, _ = s.learn(turn, other)
					alarms = append(alarms, now...)
				}
				rows := uint64(8 * turn * s.b)
				if refused := s.l.counts.Gated - gated + uint64(s.l.Quarantined()); len(alarms) > before || refused > rows/20 {
					t.Errorf("alarms %v and %d of %d rows refused when both are known", alarms[before:], refused, rows)
				}
			})
		}
	}
}

// TestRestAtOneValue holds that a machine that rests at exactly one value for some hundred rows, and runs for as many, is known in both ways
// in the end, whichever comes first.
func TestRestAtOneValue(t *testing.T) {
	for seed, rest := range some(1, 8, 13) {
		for _, first := range some(1, 0, 1) {
			t.Run(fmt.Sprintf("%d %d", rest, first), func(t *testing.T) {
				s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours, c.DriftRows = lca.PresetDensity, 1000, 600 })
				s.r = rand.New(rand.NewPCG(uint64(seed), 19))
				ways := []func() *mat.Dense{
					func() *mat.Dense { return s.minibatch(3, 20) },
					func() *mat.Dense { return mat.NewDense(s.b, s.d, nil) },
				}
				var gated, rows uint64
				for turn := range 26 {
					if turn == 20 {
						gated, rows = s.l.counts.Gated, s.l.counts.Rows
					}
					s.learn(rest-2*(turn%2), ways[(first+turn)%2])
				}
				rows = s.l.counts.Rows - rows
				if refused := s.l.counts.Gated - gated + uint64(s.l.Quarantined()); refused > rows/20 {
					t.Errorf("%d of %d rows refused", refused, rows)
				}
			})
		}
	}
}

// TestFaultsAreNotAlternation holds that a fault that is believed twice, with rows of long in between, is not learnt with the others.
func TestFaultsAreNotAlternation(t *testing.T) {
	s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours, c.DriftRows = lca.PresetDensity, 1000, 600 })
	var alarms []Alarm
	for range 3 {
		now, _ := s.learn(40, s.law(3))
		alarms = append(alarms, now...)
		now, _ = s.learn(14, func() *mat.Dense { return s.minibatch(3, 30) })
		alarms = append(alarms, now...)
	}
	want := []Alarm{AlarmDrift, AlarmRegimeReturned, AlarmRegimeReturned, AlarmRegimeReturned, AlarmRegimeReturned}
	if !slices.Equal(alarms, want) {
		t.Errorf("alarms %v, want %v", alarms, want)
	}
}

// TestRareFaultsDoNotRecur holds that a fault that comes for a while, without or with good rows in between, and again after thousands of rows, is
// no second way to run: it is refused each time, and never learnt.
func TestRareFaultsDoNotRecur(t *testing.T) {
	for _, c := range some(1, []struct {
		name  string
		event []int // minibatches of the fault, and good ones, in turn
	}{
		{"a loose contact", []int{4, 2, 4, 2, 4, 2, 4}},
		{"a burst", []int{9}},
		{"flickering", []int{3, 1, 3, 1, 3, 1, 3}},
	}...) {
		t.Run(c.name, func(t *testing.T) {
			s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours, c.DriftRows = lca.PresetDensity, 1000, 1000 })
			fault := func() *mat.Dense { return s.minibatch(3, 30) }
			s.learn(80, s.law(3))
			for range some(2, 0, 1, 2, 3) { // times that it comes
				for i, n := range c.event {
					draw := fault
					if i%2 == 1 {
						draw = s.law(3)
					}
					alarms, nll := s.learn(n, draw)
					if len(alarms) > 0 || i%2 == 0 && !(nll[n-1] > s.l.drift.nll.mean+5) && nll[n-1] == nll[n-1] {
						t.Errorf("alarms %v, NLL %v of the fault, usual %.1f", alarms, nll, s.l.drift.nll.mean)
					}
				}
				if alarms, _ := s.learn(150, s.law(3)); len(alarms) > 0 {
					t.Errorf("alarms %v after it", alarms)
				}
			}
		})
	}
}
