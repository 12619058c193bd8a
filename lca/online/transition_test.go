package online

import (
	"fmt"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestSlowTransition holds that a regime that returns is known as such although the rows of both are mixed during each change, for longer
// than a restart waits with lca.PresetMetric.
func TestSlowTransition(t *testing.T) {
	for _, preset := range []lca.Preset{lca.PresetDensity, lca.PresetMetric} {
		for _, minibatches := range []int{4, 10} {
			t.Run(fmt.Sprintf("%v, %d minibatches", preset, minibatches), func(t *testing.T) {
				s := newSeasons(t, func(c *Config) { c.Preset = preset })
				towards := func(from, to uint64) func() *mat.Dense {
					turn := 0
					return func() *mat.Dense {
						turn++
						return s.blend(from, to, float64(turn)/float64(minibatches+1))
					}
				}
				var alarms []Alarm
				for _, part := range []struct {
					minibatches int
					draw        func() *mat.Dense
				}{{40, s.law(3)}, {minibatches, towards(3, 4)}, {40, s.law(4)}, {minibatches, towards(4, 3)}, {20, s.law(3)}} {
					now, _ := s.learn(part.minibatches, part.draw)
					alarms = append(alarms, now...)
				}
				if !slices.Equal(alarms, []Alarm{AlarmDrift, AlarmRegimeReturned}) {
					t.Errorf("alarms %v, want a change and a return", alarms)
				}
			})
		}
	}
}

// blend draws a minibatch of which that share is from the law to.
func (s *seasons) blend(from, to uint64, share float64) *mat.Dense {
	x, y := s.minibatch(from, 0), s.minibatch(to, 0)
	for i := range s.b {
		if s.r.Float64() < share {
			x.SetRow(i, y.RawRowView(i))
		}
	}
	return x
}

// TestChoiceAfterSlowTransition holds that a regime from which rows of the former one were left out has its first choice as soon as its
// pool is full, and does not wait until as many rows again have come.
func TestChoiceAfterSlowTransition(t *testing.T) {
	const pool, minibatches = 1500, 10
	s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours = lca.PresetDensity, pool })
	s.learn(60, s.law(3))
	turn := 0
	s.learn(minibatches, func() *mat.Dense {
		turn++
		return s.blend(3, 4, float64(turn)/float64(minibatches+1))
	})
	if alarms, _ := s.learn(40, s.law(4)); !slices.Equal(alarms, []Alarm{AlarmDrift}) {
		t.Fatalf("alarms %v, want a change", alarms)
	}
	for s.l.pool.len() < pool {
		s.learn(1, s.law(4))
	}
	if s.l.counts.Since == pool {
		t.Error("no rows were left out: this is no test any more")
	}
	if s.l.choice.began == 0 {
		t.Errorf("no comparison although the pool is full after %d rows", s.l.counts.Since)
	}
}
