package snapshots

import (
	"fmt"
	"strings"
	"testing"
)

// The axis has numbers to read values by, however wide it is, and not so many that they run into each other.
func TestRatioTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0.5, 2, "0.5 0.7 1 1.5 2"},
		{0.16, 2, "0.2 0.3 0.4 0.5 0.7 1 1.5 2"},
		{0.012, 2, "0.02 0.05 0.1 0.2 0.5 1 2"},
		{1e-12, 2, "1e-12 1e-11 1e-10 1e-09 1e-08 1e-07 1e-06 1e-05 0.0001 0.001 0.01 0.1 1"},
	} {
		var got []string
		for _, tick := range ratioTicks(c.low, c.high) {
			if tick.label != "" {
				got = append(got, tick.label)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("from %g to %g: %s, want %s", c.low, c.high, text, c.want)
		}
	}
}

func TestWholeTicks(t *testing.T) {
	for high, want := range map[float64]string{1: "[0 1]", 8: "[0 1 2 3 4 5 6 7 8]", 9: "[0 2 4 6 8]", 63: "[0 10 20 30 40 50 60]", 255: "[0 50 100 150 200 250]"} {
		if got := fmt.Sprint(wholeTicks(high)); got != want {
			t.Errorf("to %g: %s, want %s", high, got, want)
		}
	}
}
