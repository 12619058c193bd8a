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

// TestStuckSensors holds that rows are not learnt while all sensors repeat their last values, with one alarm once that has lasted as long as
// a change must, and that the former metric knows the rows that follow, with none.
func TestStuckSensors(t *testing.T) {
	for _, preset := range []lca.Preset{lca.PresetDensity, lca.PresetMetric} {
		for seed, minibatches := range []int{1, 30, 200} {
			t.Run(fmt.Sprintf("%v %d", preset, minibatches), func(t *testing.T) {
				s := newSeasons(t, func(c *Config) { c.Preset = preset })
				s.r = rand.New(rand.NewPCG(uint64(seed), 18))
				s.learn(40, s.law(3))
				last := s.minibatch(3, 0).RawRowView(0)
				before := s.l.counts.Learnt
				alarms, _ := s.learn(minibatches, func() *mat.Dense {
					x := mat.NewDense(s.b, s.d, nil)
					for i := range s.b {
						x.SetRow(i, last)
					}
					return x
				})
				var want []Alarm
				if minibatches*s.b >= s.l.patience() {
					want = []Alarm{AlarmRefused}
				}
				if learnt := s.l.counts.Learnt - before; !slices.Equal(alarms, want) || learnt > 0 {
					t.Errorf("alarms %v and %d rows learnt while they are stuck, want %v", alarms, learnt, want)
				}
				alarms, _ = s.learn(20, s.law(3))
				if learnt := s.l.counts.Learnt - before; len(alarms) > 0 || learnt < uint64(20*s.b*9/10) {
					t.Errorf("alarms %v and %d of %d rows learnt afterwards", alarms, learnt, 20*s.b)
				}
			})
		}
	}
}

// TestStuckColumn holds that rows are not learnt while one column repeats a value that is as likely as any, in steps or not, and that they are where it
// has rested for long before.
func TestStuckColumn(t *testing.T) {
	for _, c := range []struct {
		name  string
		value func(r *rand.Rand, i int, v float64) float64 // of a good sensor, in row i of a minibatch
		stuck bool
	}{
		{"any value", func(_ *rand.Rand, _ int, v float64) float64 { return v }, true},
		{"a value in 300 twice", func(r *rand.Rand, _ int, v float64) float64 {
			if r.IntN(300) == 0 {
				return 0
			}
			return v
		}, true},
		{"steps", func(_ *rand.Rand, _ int, v float64) float64 { return math.Round(10*v) / 10 }, true},
		{"one value often, never for long", func(r *rand.Rand, _ int, v float64) float64 {
			if r.IntN(4) == 0 {
				return -1
			}
			return v
		}, true},
		{"rests for long", func(_ *rand.Rand, i int, v float64) float64 {
			if i < 40 {
				return -1
			}
			return v
		}, false},
	} {
		for _, preset := range []lca.Preset{lca.PresetDensity, lca.PresetMetric} {
			t.Run(fmt.Sprintf("%s, %v", c.name, preset), func(t *testing.T) {
				s := newSeasons(t, func(c *Config) { c.Preset = preset })
				s.r = rand.New(rand.NewPCG(5, 18))
				const column = 2
				minibatch := func() *mat.Dense {
					x := s.minibatch(3, 0)
					for i := range s.b {
						x.Set(i, column, c.value(s.r, i, x.At(i, column)))
					}
					return x
				}
				s.learn(40, minibatch)
				last := minibatch().At(0, column)
				before := s.l.counts.Learnt
				for range 3 {
					s.learn(1, func() *mat.Dense {
						x := minibatch()
						for i := range s.b {
							x.Set(i, column, last)
						}
						return x
					})
				}
				if learnt := s.l.counts.Learnt > before; learnt == c.stuck {
					t.Errorf("rows with a stuck column learnt: %v", learnt)
				}
			})
		}
	}
}
