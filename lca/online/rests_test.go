package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// TestStuckSensors holds that rows are not learnt while all sensors repeat their last values, with one alarm once that has lasted as long as
// a change must, and that the former metric knows the rows that follow, with none.
func TestStuckSensors(t *testing.T) {
	for _, preset := range some(1, lca.PresetDensity, lca.PresetMetric) {
		for seed, minibatches := range some(2, 1, 30, 200) {
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

// TestStuckWithinAMinibatch holds that it does not matter at which row of a minibatch sensors are stuck, one or all of them, nor that they have been before: of each
// time little more than the minibatch is learnt in which it begins.
func TestStuckWithinAMinibatch(t *testing.T) {
	for name, columns := range map[string][]int{"one column": {2}, "all columns": {0, 1, 2, 3, 4, 5}} {
		for _, from := range some(2, 0, 25, 5, 12, 38, 49) {
			t.Run(fmt.Sprintf("%s, row %d", name, from), func(t *testing.T) {
				s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours = lca.PresetDensity, 1000 })
				s.r = rand.New(rand.NewPCG(uint64(from), 18))
				s.learn(40, s.law(3))
				for range some(2, 0, 1, 2) { // times that they are stuck
					var last []float64
					before := s.l.counts.Learnt
					s.learn(12, func() *mat.Dense {
						x := s.minibatch(3, 0)
						for i := range s.b {
							if last == nil && i == from {
								last = slices.Clone(x.RawRowView(i))
							}
							if last != nil {
								for _, k := range columns {
									x.Set(i, k, last[k])
								}
							}
						}
						return x
					})
					if learnt := int(s.l.counts.Learnt - before); learnt > 4*s.b {
						t.Errorf("%d of %d rows learnt while sensors are stuck", learnt, 12*s.b)
					}
					s.learn(30, s.law(3))
				}
			})
		}
	}
}

// TestIdleFeed holds that rows are learnt while a feed repeats its last one because the machine is idle, each time another one, once that has come a few times.
func TestIdleFeed(t *testing.T) {
	for _, idle := range some(1, 16, 6) {
		t.Run(fmt.Sprint(idle), func(t *testing.T) {
			s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours, c.WarmupRows = lca.PresetDensity, 2000, 2000 })
			turn := func() (alarms []Alarm) {
				alarms, _ = s.learn(8, s.law(3))
				last := s.minibatch(3, 0).RawRowView(0)
				more, _ := s.learn(idle, func() *mat.Dense {
					x := mat.NewDense(s.b, s.d, nil)
					for i := range s.b {
						x.SetRow(i, last)
					}
					return x
				})
				return append(alarms, more...)
			}
			for s.l.metric == nil {
				turn()
			}
			before, gated := s.l.counts.Rows, s.l.counts.Gated
			var alarms []Alarm
			for range 8 {
				alarms = append(alarms, turn()...)
			}
			if refused := s.l.counts.Gated - gated + uint64(s.l.Quarantined()); len(alarms) > 0 || refused > (s.l.counts.Rows-before)/20 {
				t.Errorf("alarms %v, %d of %d rows refused", alarms, refused, s.l.counts.Rows-before)
			}
		})
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

// TestLongestRest holds which rests a regime knows: the longest that was learnt from its beginning to its end, over minibatches or within one.
func TestLongestRest(t *testing.T) {
	type part struct {
		values  []float64
		refused bool
	}
	for _, c := range []struct {
		name  string
		parts []part
		want  uint64
	}{
		{"none", []part{{values: []float64{1, 2, 1, 2, 3}}}, 1},
		{"within a minibatch", []part{{values: []float64{1, 2, 2, 2, 3}}}, 3},
		{"over minibatches", []part{{values: []float64{1, 2, 2}}, {values: []float64{2, 2, 3}}}, 4},
		{"that goes on", []part{{values: []float64{1, 1, 2, 2, 2, 2}}}, 2},
		{"that was refused at the end", []part{{values: []float64{1, 2, 2}}, {[]float64{2, 2, 2}, true}, {values: []float64{3, 3, 4}}}, 2},
		{"that was refused at the beginning", []part{{[]float64{1, 2, 2}, true}, {values: []float64{2, 2, 3}}}, 0},
	} {
		var r rests
		longest := make([]uint64, 1)
		for _, p := range c.parts {
			r.pass(pool.Batch{X: p.values, IDs: make([]uint64, len(p.values))}, p.refused, longest, 1)
		}
		if longest[0] != c.want {
			t.Errorf("%s: %d rows, want %d", c.name, longest[0], c.want)
		}
	}
	if longest := longestRests(pool.Batch{X: []float64{1, 5, 2, 5, 2, 5}, IDs: make([]uint64, 3)}, 2); !slices.Equal(longest, []uint64{2, 3}) {
		t.Errorf("of rows that are learnt together %v, want 2 and 3", longest)
	}
}
