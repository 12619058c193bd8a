package recent

import "testing"

// A machine sends the rows of five minutes in one message: its time goes on as that of one that sends each row by itself.
func TestClockOfRowsWithOneStamp(t *testing.T) {
	const minutes, begin = 5 * minute, 1_800_000_000_000
	for _, rows := range []int64{1, 2, 20, 300} {
		var c Clock
		for i := range 1000 * rows {
			c.Step(begin + i/rows*minutes)
		}
		if part := float64(c.Elapsed) / (999 * minutes); part < 0.97 || part > 1 {
			t.Errorf("%d rows of one stamp: %.3f of their time", rows, part)
		}
		c.Restart()
		if c.Step(begin + 999*minutes); c.Passed(1, 1) {
			t.Errorf("%d rows of one stamp: no time has passed since the restart", rows)
		}
		if c.Step(begin + 1000*minutes); !c.Passed(minutes, 1000) || c.Passed(minutes+1, 0) {
			t.Errorf("%d rows of one stamp: %d ms since the restart", rows, c.Since)
		}
	}
}
