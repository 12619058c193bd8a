package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestWake holds that a machine that was at rest when the stream began, up to the noise of its sensors, is known one warm-up after it has begun to run,
// and that a fault that is as loud in all columns, once the machine is known, must last as long as any other change.
func TestWake(t *testing.T) {
	for _, noise := range some(1, 1e-3, 1e-6, 0.02) {
		t.Run(fmt.Sprint(noise), func(t *testing.T) {
			s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours = lca.PresetDensity, 3000 })
			s.r = rand.New(rand.NewPCG(6, 18))
			warmup := s.l.cfg.warmupRows() / s.b
			alarms, _ := s.learn(warmup+4, func() *mat.Dense { return scaled(s.minibatch(3, 0), noise) })
			now, _ := s.learn(warmup, s.law(4))
			if alarms = append(alarms, now...); !slices.Equal(alarms, []Alarm{AlarmDrift}) {
				t.Fatalf("alarms %v one warm-up after the machine began to run, want a change", alarms)
			}
			if alarms, _ = s.learn(60, s.law(4)); len(alarms) > 0 {
				t.Errorf("alarms %v later", alarms)
			}
			alarms, _ = s.learn(warmup+4, func() *mat.Dense { return scaled(s.minibatch(4, 0), 50) })
			if set := s.l.Quarantined(); len(alarms) > 0 || set < warmup*s.b {
				t.Errorf("alarms %v and %d rows set aside in a fault that is as loud, want none and all", alarms, set)
			}
		})
	}
}

// TestWakeWithAConstantColumn holds that a column which never moves keeps no machine from being known.
func TestWakeWithAConstantColumn(t *testing.T) {
	s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours = lca.PresetDensity, 3000 })
	warmup := s.l.cfg.warmupRows() / s.b
	constant := func(law uint64, by float64) func() *mat.Dense {
		return func() *mat.Dense {
			x := scaled(s.minibatch(law, 0), by)
			for i := range s.b {
				x.Set(i, 1, 7)
			}
			return x
		}
	}
	s.learn(warmup+4, constant(3, 1e-3))
	if alarms, _ := s.learn(warmup, constant(4, 1)); !slices.Equal(alarms, []Alarm{AlarmDrift}) {
		t.Errorf("alarms %v one warm-up after the machine began to run, want a change", alarms)
	}
}

// TestEarlyNoise holds that noise of all columns, as of a loose cable, must last as long as any other change, although the stream is young: it is no machine
// that wakes. A second time of it is a fault as the first.
func TestEarlyNoise(t *testing.T) {
	s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours = lca.PresetDensity, 3000 })
	noise := func(by float64) func() *mat.Dense {
		return func() *mat.Dense {
			x := mat.NewDense(s.b, s.d, nil)
			x.Apply(func(int, int, float64) float64 { return by * s.r.NormFloat64() }, x)
			return x
		}
	}
	warmup := s.l.cfg.warmupRows() / s.b
	s.learn(2*warmup, noise(1))
	for range 2 {
		alarms, _ := s.learn(warmup+1, noise(20))
		if set := s.l.Quarantined(); len(alarms) > 0 || set < warmup*s.b {
			t.Errorf("alarms %v and %d rows set aside, want none and all", alarms, set)
		}
		if alarms, _ = s.learn(3*warmup, noise(1)); len(alarms) > 0 {
			t.Errorf("alarms %v afterwards", alarms)
		}
	}
}

// TestRestsAsLongAsThePool holds that a machine which begins at rest, and then rests for as long as the pool has rows, is learnt as one after a few returns.
func TestRestsAsLongAsThePool(t *testing.T) {
	for _, seed := range some[uint64](1, 0, 1) {
		s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours = lca.PresetDensity, 2000 })
		s.r = rand.New(rand.NewPCG(seed, 21))
		turn := func() (alarms []Alarm) {
			alarms, _ = s.learn(40, func() *mat.Dense { return scaled(s.minibatch(3, 0), 0.02) })
			more, _ := s.learn(14, s.law(4))
			return append(alarms, more...)
		}
		var alarms []Alarm
		for range 5 {
			alarms = append(alarms, turn()...)
		}
		if !slices.Contains(alarms, AlarmRecurring) {
			t.Errorf("alarms %v in the first turns, want one that both are learnt", alarms)
		}
		before := s.l.counts.Gated
		for range 4 {
			if alarms := turn(); len(alarms) > 0 || s.l.counts.Gated > before {
				t.Errorf("alarms %v and %d rows refused later", alarms, s.l.counts.Gated-before)
			}
		}
	}
}

func scaled(x *mat.Dense, by float64) *mat.Dense {
	x.Scale(by, x)
	return x
}

// TestLongRests holds that a machine which rests for long, runs for less, and has done both when the first model is made, is known in both ways
// from then on: no row is refused and no alarm raised, although for many minibatches in a row nothing but rest has come.
func TestLongRests(t *testing.T) {
	for seed, c := range some(1, []struct {
		name       string
		rest, runs int // minibatches
		noise      float64
	}{
		{"noise of sensors", 20, 7, 0.02},
		{"long", 25, 8, 0.1},
		{"one value", 20, 9, 0},
	}...) {
		t.Run(c.name, func(t *testing.T) {
			s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours, c.WarmupRows = lca.PresetDensity, 1500, 1500 })
			s.r = rand.New(rand.NewPCG(uint64(seed), 20))
			turn := func() (alarms []Alarm) {
				alarms, _ = s.learn(c.rest, func() *mat.Dense { return scaled(s.minibatch(3, 0), c.noise) })
				more, _ := s.learn(c.runs, func() *mat.Dense { return s.minibatch(3, 20) })
				return append(alarms, more...)
			}
			for s.l.metric == nil {
				turn()
			}
			before := s.l.counts
			var alarms []Alarm
			for range 5 {
				alarms = append(alarms, turn()...)
			}
			rows := s.l.counts.Rows - before.Rows
			if refused := s.l.counts.Gated - before.Gated + uint64(s.l.Quarantined()); len(alarms) > 0 || refused > rows/50 {
				t.Errorf("alarms %v, %d of %d rows refused", alarms, refused, rows)
			}
		})
	}
}

// TestHumOfTheOnlyColumnThatMoves holds that one column is too few to tell a machine that wakes from hum.
func TestHumOfTheOnlyColumnThatMoves(t *testing.T) {
	s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours = lca.PresetDensity, 3000 })
	warmup := s.l.cfg.warmupRows() / s.b
	phase := 0.0
	column := func(hum float64) func() *mat.Dense {
		return func() *mat.Dense {
			x := mat.NewDense(s.b, s.d, nil)
			for i := range s.b {
				phase += 0.3
				x.Set(i, 1, s.r.NormFloat64()+hum*math.Sin(phase))
			}
			return x
		}
	}
	s.learn(warmup+4, column(0))
	before := s.l.counts.Learnt
	if alarms, _ := s.learn(warmup+4, column(30)); len(alarms) > 0 || s.l.counts.Learnt > before {
		t.Errorf("alarms %v, %d rows learnt", alarms, s.l.counts.Learnt-before)
	}
}
