package online

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// TestRecurringRows holds that rows of a second kind, which come again and again for less than a change must last, are learnt with the first
// kind, with one alarm, and that both are known afterwards; that as many rows that are different each time never are; and that a
// learner that is saved and read at any minibatch goes on with the same bits.
func TestRecurringRows(t *testing.T) {
	for _, c := range []struct {
		name  string
		law   func(turn int) uint64
		moved func(turn int) float64
		want  []Alarm
	}{
		{"the same kind", func(int) uint64 { return 4 }, func(int) float64 { return 30 }, []Alarm{AlarmRecurring}},
		{"another each time", func(turn int) uint64 { return 10 + uint64(turn) }, func(turn int) float64 { return 60 * float64(turn%7-3) }, []Alarm{AlarmRefused}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSeasons(t, func(c *Config) { c.Preset, c.Neighbours, c.DriftRows = lca.PresetDensity, 1000, 600 })
			s.learn(40, s.law(3))
			var alarms []Alarm
			refused := 0
			for turn := range 16 {
				now, _ := s.learn(10, s.law(3))
				alarms = append(alarms, now...)
				now, _ = s.learn(6, func() *mat.Dense { return s.minibatch(c.law(turn), c.moved(turn)) })
				alarms = append(alarms, now...)
				if refused = s.l.Quarantined(); turn%5 == 1 {
					s.restore()
				}
			}
			if !slices.Equal(alarms, c.want) {
				t.Errorf("alarms %v, want %v", alarms, c.want)
			}
			if known := refused == 0; known != (c.want[0] == AlarmRecurring) {
				t.Errorf("%d rows set aside at the last time", refused)
			}
		})
	}
}

// restore goes on with a learner that has read the state of the last one, which must write the same.
func (s *seasons) restore() {
	s.t.Helper()
	state, err := s.l.AppendBinary(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	next, err := NewLearner(s.l.asked)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := next.UnmarshalBinary(state); err != nil {
		s.t.Fatal(err)
	}
	again, err := next.AppendBinary(nil)
	if err != nil || !bytes.Equal(state, again) {
		s.t.Fatalf("another state after reading it: %v", err)
	}
	s.l.Close()
	s.l = next
}

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
