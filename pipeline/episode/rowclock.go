package episode

import "time"

// RowClock tells how often rows come, by their stamps: in which time how many have come. A row with a wrong stamp costs little, and a night without rows
// is no time. What it says changes after 2, 4, 8 … rows, and from mostBetween on after each as many, so that it is a function of the rows alone.
type RowClock struct {
	stamps
	rows    int64
	elapsed time.Duration

	Rows int64         // when it last changed
	In   time.Duration // the time that they took
}

const mostBetween = 4096

// Step moves the clock on by a row; the zero time is none. It reports whether what it says has changed.
func (c *RowClock) Step(at time.Time) (changed bool) {
	c.rows++
	if !at.IsZero() {
		c.elapsed += c.next(at, c.In/time.Duration(max(c.Rows, 1)))
	}
	if c.rows >= c.Rows+min(max(c.Rows, 2), mostBetween) {
		c.Rows, c.In = c.rows, c.elapsed
		return true
	}
	return false
}
