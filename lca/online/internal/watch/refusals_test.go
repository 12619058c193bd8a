package watch

import "testing"

// TestRefusals holds when refused rows trip the watchdog, and when there is an alarm: each step has 1000 rows, and is judged.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name     string
		refused  []int // of each step
		restarts bool
		tripped  bool
		alarms   int
	}{
		{"few", []int{1, 0, 2, 1}, true, false, 0},
		{"most, once", []int{600}, true, true, 0},
		{"most, of a learner that never restarts", []int{600}, false, false, 1},
		{"one in thirty for long, told once", []int{33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33, 33}, true, false, 1},
		{"one in thirty with a pause", []int{33, 33, 33, 33, 33, 33, 33, 33, 5, 33, 33, 33}, true, false, 0},
		{"told again once it was half as many", []int{33, 33, 33, 33, 33, 33, 33, 33, 33, 5, 33, 33, 33, 33, 33, 33, 33, 33, 33}, true, false, 2},
	} {
		var k Refusals
		alarms := 0
		for _, refused := range c.refused {
			if share, alarm := k.Count(1000, refused, 1000, c.restarts); alarm {
				if alarms++; share != float64(refused)/1000 {
					t.Errorf("%s: a share of %v, not %v", c.name, share, float64(refused)/1000)
				}
			}
		}
		if k.Tripped != c.tripped || alarms != c.alarms {
			t.Errorf("%s: tripped %v, %d alarms; want %v, %d", c.name, k.Tripped, alarms, c.tripped, c.alarms)
		}
	}
}
