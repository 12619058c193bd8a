package online

import (
	"bytes"
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
