package episode

import (
	"time"

	"github.com/lca-stream/lca-stream/lca/recent"
)

// RowClock tells how often rows come, by their stamps: in which time how many have come. A row with a wrong stamp costs little, and a night without rows
// is no time. What is usual between two rows is told by those that moved it on: the rows of one message, or of machines that are asked together, have one
// stamp, and the next of them are no pause. What it says changes after 2, 4, 8 … rows, and from mostBetween on after each as many, so that it is a function of the rows alone.
type RowClock struct {
	recent.Stamps
	All     int64         `json:"all"` // rows
	Elapsed time.Duration `json:"elapsed"`
	Steps   int64         `json:"steps"` // rows that moved it on
	Rows    int64         `json:"rows"`  // when it last changed
	In      time.Duration `json:"in"`    // the time that they took
	Stepped int64         `json:"stepped"`
}

const mostBetween = 4096

// Step moves the clock on by a row; the zero time is none. It reports whether what it says has changed.
func (c *RowClock) Step(at time.Time) (changed bool) {
	if c.Steps == 0 && c.Elapsed > 0 { // by a version that did not count them
		c.Steps, c.Stepped = c.All, c.Rows
	}
	c.All++
	if !at.IsZero() {
		gap := c.Next(at.UnixMilli(), c.In.Milliseconds()/max(c.Stepped, 1))
		if gap > 0 {
			c.Steps++
		}
		c.Elapsed = min(c.Elapsed+time.Duration(gap)*time.Millisecond, recent.MostElapsed*time.Millisecond)
	}
	if c.All >= c.Rows+min(max(c.Rows, 2), mostBetween) {
		c.Rows, c.In, c.Stepped = c.All, c.Elapsed, c.Steps
		return true
	}
	return false
}
