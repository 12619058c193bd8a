package source

import "time"

// The first and the last time that RFC 3339 can write, in milliseconds since 1970: of the years 1 to 9999.
const (
	firstCalendarMilli = -62135596800000
	lastCalendarMilli  = 253402300799999
)

// Calendar returns a record's time for people and for JSON, in UTC: the nearest that RFC 3339 can write. Timestamps are any 64
// bits that a producer wrote: one of microseconds is of the year 55840, and encoding/json refuses that.
func Calendar(at time.Time) time.Time {
	return time.UnixMilli(min(max(at.UnixMilli(), firstCalendarMilli), lastCalendarMilli)).UTC()
}

// OnCalendar reports whether Calendar returns the time that it is given.
func OnCalendar(at time.Time) bool { return Calendar(at).UnixMilli() == at.UnixMilli() }
