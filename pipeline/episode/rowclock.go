package episode

import (
	"time"

	"github.com/lca-stream/lca-stream/lca/recent"
)

// RowClock tells how often rows come, by their stamps: in which time how many have come. A row with a wrong stamp costs little, and a night without rows
// is no time. What it says changes after 2, 4, 8 … rows, and from mostBetween on after each as many, so that it is a function of the rows alone.
type RowClock struct {
	recent.Stamps
	All     int64         `json:"all"` // rows
	Elapsed time.Duration `json:"elapsed"`
	Rows    int64         `json:"rows"` // when it last changed
	In      time.Duration `json:"in"`   // the time that they took
}

const mostBetween = 4096

// Step moves the clock on by a row; the zero time is none. It reports whether what it says has changed.
func (c *RowClock) Step(at time.Time) (changed bool) {
	c.All++
	if !at.IsZero() {
		gap := c.Next(at.UnixMilli(), c.In.Milliseconds()/max(c.Rows, 1))
		c.Elapsed = min(c.Elapsed+time.Duration(gap)*time.Millisecond, recent.MostElapsed*time.Millisecond)
	}
	if c.All >= c.Rows+min(max(c.Rows, 2), mostBetween) {
		c.Rows, c.In = c.All, c.Elapsed
		return true
	}
	return false
}
