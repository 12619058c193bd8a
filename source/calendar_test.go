package source

import (
	"math"
	"testing"
	"time"
)

// Any timestamp can be written, and those of the years 1 to 9999 are as they are.
func TestCalendar(t *testing.T) {
	for ms, want := range map[int64]string{
		math.MinInt64: "0001-01-01T00:00:00Z", math.MaxInt64: "9999-12-31T23:59:59.999Z", 1_700_000_000_000_000_000: "9999-12-31T23:59:59.999Z",
		firstCalendarMilli: "0001-01-01T00:00:00Z", lastCalendarMilli: "9999-12-31T23:59:59.999Z", lastCalendarMilli + 1: "9999-12-31T23:59:59.999Z",
		-1: "1969-12-31T23:59:59.999Z", 0: "1970-01-01T00:00:00Z", 1: "1970-01-01T00:00:00.001Z", 1_700_000_000_000_000: "9999-12-31T23:59:59.999Z",
	} {
		at := time.UnixMilli(ms)
		text, err := Calendar(at).MarshalJSON()
		if err != nil || string(text) != `"`+want+`"` {
			t.Errorf("%d: %s, %v, want %s", ms, text, err, want)
		}
		if in := ms >= firstCalendarMilli && ms <= lastCalendarMilli; OnCalendar(at) != in {
			t.Errorf("%d is on the calendar: %v", ms, !in)
		}
	}
}
