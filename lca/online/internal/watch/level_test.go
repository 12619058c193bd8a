package watch

import (
	"math"
	"testing"
)

// TestLevel holds that a figure is compared with none until there are enough, is far from others of an even spread, and that no number changes nothing.
func TestLevel(t *testing.T) {
	var l Level
	for i := range Settle {
		if z := l.Z(100); z != 0 {
			t.Fatalf("%v standard deviations after %d figures", z, i)
		}
		l.Observe(float64(i % 2))
	}
	if z := l.Z(10); !(z > 10) {
		t.Errorf("10 is %v standard deviations from 0 and 1", z)
	}
	before := l
	l.Observe(math.NaN())
	l.Observe(math.Inf(1))
	if l != before || l.Z(math.NaN()) != 0 {
		t.Errorf("%+v after what is no number, %+v before", l, before)
	}
	l.MoveTo([]float64{1, 2, math.NaN()}, []float64{4, 5, 6}, 1)
	if l.Mean != before.Mean+3 || l.Variance != before.Variance {
		t.Errorf("moved by 3: %+v, was %+v", l, before)
	}
}
