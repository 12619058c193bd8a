package online

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// seasons draws minibatches of a stream whose law changes; a law is known by its seed.
type seasons struct {
	t    *testing.T
	l    *Learner
	r    *rand.Rand
	d, b int
	next int
}

func newSeasons(t *testing.T, change func(*Config)) *seasons {
	t.Helper()
	c := policies(6)
	c.Neighbours, c.Minibatch = 400, 50
	change(&c)
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	return &seasons{t: t, l: l, r: rand.New(rand.NewPCG(1, 18)), d: c.Dim, b: c.Minibatch}
}

// minibatch draws one from the law of a seed, moved by shift in its first column.
func (s *seasons) minibatch(law uint64, shift float64) *mat.Dense {
	x := mixture(law, s.d, 4)(s.r, s.b)
	for i := range s.b {
		x.Set(i, 0, x.At(i, 0)+shift)
	}
	return x
}

// learn learns minibatches, and returns their alarms and the NLL of each.
func (s *seasons) learn(minibatches int, draw func() *mat.Dense) (alarms []Alarm, nll []float64) {
	s.t.Helper()
	for range minibatches {
		step, err := s.l.Learn(draw(), sequence(s.next, s.b), nil)
		if err != nil {
			s.t.Fatal(err)
		}
		s.next += s.b
		if step.Alarm != AlarmNone {
			alarms = append(alarms, step.Alarm)
		}
		nll = append(nll, step.NLL)
	}
	return alarms, nll
}

func (s *seasons) law(seed uint64) func() *mat.Dense {
	return func() *mat.Dense { return s.minibatch(seed, 0) }
}

// TestRegimeReturns holds that a former metric is current again from the first minibatch on, with its coordinates, and
// that a change is still a change.
func TestRegimeReturns(t *testing.T) {
	for _, preset := range []lca.Preset{lca.PresetDensity, lca.PresetMetric} {
		for _, kind := range []lca.Metric{lca.MetricFull, lca.MetricDiagonal} {
			t.Run(fmt.Sprintf("%v %v", preset, kind), func(t *testing.T) {
				s := newSeasons(t, func(c *Config) { c.Preset, c.Metric = preset, kind })
				_, first := s.learn(40, s.law(3))
				steady, coordinates := first[len(first)-1], slices.Clone(s.l.aligned.w)
				if alarms, _ := s.learn(40, s.law(4)); !slices.Equal(alarms, []Alarm{AlarmDrift}) {
					t.Fatalf("alarms at the change: %v", alarms)
				}
				alarms, nll := s.learn(1, s.law(3))
				if !slices.Equal(alarms, []Alarm{AlarmRegimeReturned}) || math.Abs(nll[0]-steady) > 1 {
					t.Errorf("alarms at the return: %v, NLL %.2f and %.2f before", alarms, nll[0], steady)
				}
				if !slices.Equal(s.l.aligned.w, coordinates) {
					t.Error("other coordinates than before")
				}
				if alarms, _ := s.learn(20, s.law(3)); len(alarms) > 0 {
					t.Errorf("alarms after the return: %v", alarms)
				}
				if alarms, _ := s.learn(30, s.law(5)); !slices.Equal(alarms, []Alarm{AlarmDrift}) {
					t.Errorf("alarms at a new regime: %v", alarms)
				}
				for kind, want := range map[Alarm]uint64{AlarmDrift: 2, AlarmRegimeReturned: 1, AlarmLockout: 0, AlarmNone: 0} {
					if got := s.l.AlarmsOf(kind); got != want {
						t.Errorf("%d alarms of the kind %v, want %d", got, kind, want)
					}
				}
			})
		}
	}
}

// TestNoFalseReturn holds that neither outliers, nor noise as wide as the former regime, nor a regime near it are taken for it.
func TestNoFalseReturn(t *testing.T) {
	for _, preset := range []lca.Preset{lca.PresetDensity, lca.PresetMetric} {
		for name, rows := range map[string]func(s *seasons) *mat.Dense{
			"outliers": func(s *seasons) *mat.Dense { return noise(s, func(int) float64 { return 50 }) },
			"noise of the same mean and variances": func(s *seasons) *mat.Dense {
				moments := s.l.former.regimes[0].moments
				x := noise(s, func(k int) float64 { return math.Sqrt(moments.full()[k*s.d+k]) })
				for i := range s.b {
					for k, v := range moments.mean {
						x.Set(i, k, x.At(i, k)+v)
					}
				}
				return x
			},
			"two deviations off in one column": func(s *seasons) *mat.Dense {
				return s.minibatch(3, 2*math.Sqrt(s.l.former.regimes[0].moments.full()[0]))
			},
			"a tenth as wide": func(s *seasons) *mat.Dense {
				x, mean := s.minibatch(3, 0), s.l.former.regimes[0].moments.mean
				x.Apply(func(_, k int, v float64) float64 { return mean[k] + 0.1*(v-mean[k]) }, x)
				return x
			},
		} {
			t.Run(preset.String()+" "+name, func(t *testing.T) {
				s := newSeasons(t, func(c *Config) { c.Preset = preset })
				s.learn(40, s.law(3))
				s.learn(40, s.law(4))
				if alarms, _ := s.learn(3, func() *mat.Dense { return rows(s) }); len(alarms) > 0 {
					t.Errorf("alarms %v", alarms)
				}
			})
		}
	}
}

func noise(s *seasons, deviation func(column int) float64) *mat.Dense {
	x := mat.NewDense(s.b, s.d, nil)
	x.Apply(func(_, k int, _ float64) float64 { return deviation(k) * s.r.NormFloat64() }, x)
	return x
}

// TestRing holds that the former metrics are few, and each has few neighbours, whatever the stream does.
func TestRing(t *testing.T) {
	s := newSeasons(t, func(c *Config) { c.Neighbours = 1500 })
	for law := range uint64(formerMost + 2) {
		s.learn(30, s.law(10+law))
	}
	s.learn(30, s.law(11+formerMost-1)) // the last but one
	if got := s.l.AlarmsOf(AlarmDrift); got != formerMost+1 {
		t.Errorf("%d changes, want %d", got, formerMost+1)
	}
	if got := s.l.AlarmsOf(AlarmRegimeReturned); got != 1 {
		t.Errorf("%d returns, want 1", got)
	}
	if n := len(s.l.former.regimes); n != formerMost {
		t.Errorf("%d former metrics, want %d", n, formerMost)
	}
	for _, f := range s.l.former.regimes {
		if n := f.pool.Len(); n != sampleRows {
			t.Errorf("a former metric with %d neighbours, want %d", n, sampleRows)
		}
	}
}

// TestReturnsApart holds that a stream of two kinds of minibatches in turn does not turn back at each of them.
func TestReturnsApart(t *testing.T) {
	s := newSeasons(t, func(*Config) {})
	s.learn(40, s.law(3))
	s.learn(40, s.law(4))
	turn := 0
	s.learn(10*formerApart, func() *mat.Dense {
		turn++
		return s.minibatch(3+uint64(turn%2), 0)
	})
	if got := s.l.AlarmsOf(AlarmRegimeReturned); got < 1 || got > 10 {
		t.Errorf("%d returns in %d minibatches", got, 10*formerApart)
	}
	if got := s.l.AlarmsOf(AlarmDrift); got != 1 {
		t.Errorf("%d restarts, want the first one alone", got)
	}
}

// TestFormersContinue holds that a learner with former metrics that is restored after each minibatch has at each the
// state of one that was never interrupted.
func TestFormersContinue(t *testing.T) {
	for _, kind := range []lca.Metric{lca.MetricFull, lca.MetricLowRank} {
		change := func(c *Config) {
			c.Metric, c.NuUnit = kind, lca.UnitRelative
			if kind == lca.MetricLowRank {
				c.Rank = 2
			}
		}
		s, other := newSeasons(t, change), newSeasons(t, change)
		for i := range 100 {
			law := []uint64{3, 4, 3, 5, 4}[i/20]
			x := s.minibatch(law, 0)
			s.learn(1, func() *mat.Dense { return x })
			other.learn(1, func() *mat.Dense { return x })
			state := stateOf(t, other.l)
			if !bytes.Equal(state, stateOf(t, s.l)) {
				t.Fatalf("%v: after minibatch %d the interrupted learner has another state", kind, i)
			}
			other.l = restored(t, s.l, state)
		}
		if s.l.AlarmsOf(AlarmDrift) != 2 || s.l.AlarmsOf(AlarmRegimeReturned) != 2 {
			t.Errorf("%v: %d changes and %d returns, want 2 and 2", kind, s.l.AlarmsOf(AlarmDrift), s.l.AlarmsOf(AlarmRegimeReturned))
		}
	}
}

// TestGateOpensBesideFormers holds that the gate of a young regime opens to a minibatch as it does without former metrics,
// whose dimensions may be others: trying them leaves nothing behind.
func TestGateOpensBesideFormers(t *testing.T) {
	s := newSeasons(t, func(c *Config) { c.Preset = lca.PresetMetric })
	narrow := func() *mat.Dense {
		x := s.minibatch(3, 0)
		x.Apply(func(_, k int, v float64) float64 { return v * float64(1-k/3) }, x)
		return x
	}
	s.learn(40, narrow)
	for s.l.AlarmsOf(AlarmDrift) == 0 {
		s.learn(1, s.law(4))
	}
	state, far := stateOf(t, s.l), s.minibatch(4, 0)
	far.Apply(func(_, _ int, v float64) float64 { return v + 1000 }, far)
	with, without := restored(t, s.l, state), restored(t, s.l, state)
	without.former.regimes = nil
	a, err := with.Learn(far, sequence(s.next, s.b), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := without.Learn(far, sequence(s.next, s.b), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !a.Opened || !b.Opened || a.Learnt != b.Learnt || a.Alone != b.Alone || a.NLL != b.NLL {
		t.Errorf("%+v with former metrics, %+v without", a, b)
	}
	if !slices.Equal(with.metric.fresh, without.metric.fresh) {
		t.Error("another C_L with former metrics")
	}
}

// restored returns another learner of like's configuration, in a state.
func restored(t *testing.T, like *Learner, state []byte) *Learner {
	t.Helper()
	l, err := NewLearner(like.asked)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.UnmarshalBinary(state); err != nil {
		t.Fatal(err)
	}
	return l
}
