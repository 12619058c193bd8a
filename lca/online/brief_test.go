package online

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestBriefRegimes holds that regimes that are over before the pool is full are learnt together if one kernel fits both, and apart
// otherwise; and that those that last are always learnt apart.
func TestBriefRegimes(t *testing.T) {
	for _, c := range []struct {
		name        string
		minibatches int // of the second regime
		second      func(s *seasons) *mat.Dense
		together    bool
	}{
		{"brief, moved", 16, func(s *seasons) *mat.Dense { return s.round(5) }, true},
		{"brief, another law", 16, func(s *seasons) *mat.Dense { return s.minibatch(4, 30) }, false},
		{"lasting, moved", 30, func(s *seasons) *mat.Dense { return s.round(5) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours, c.DriftRows = lca.PresetDensity, 1000, 450 })
			s.learn(40, func() *mat.Dense { return s.round(0) })
			second := func() *mat.Dense { return c.second(s) }
			s.learn(c.minibatches, second)
			s.learn(10, func() *mat.Dense { return s.round(10) })
			if got := s.l.AlarmsOf(AlarmDrift); got != 2 {
				t.Fatalf("%d changes, want 2", got)
			}
			if alarms, _ := s.learn(3, second); (len(alarms) == 0 && s.l.Quarantined() == 0) != c.together {
				t.Errorf("the second regime again: alarms %v, %d rows set aside, want none: %v", alarms, s.l.Quarantined(), c.together)
			}
		})
	}
}

// round draws a minibatch of a round cluster at that place of the first column.
func (s *seasons) round(at float64) *mat.Dense {
	x := noise(s, func(int) float64 { return 1 })
	for i := range s.b {
		x.Set(i, 0, x.At(i, 0)+at)
	}
	return x
}
