package recent

// Stamps are those of rows, in ms since the epoch, as far as they tell how much time has passed.
type Stamps struct {
	Largest int64 `json:"largest"` // 0: none
	Ahead   int64 `json:"ahead"`   // a stamp far beyond it, which no other row has confirmed; 0: none
	Behind  int   `json:"behind"`  // rows that are far behind it, since the last that was not far from it
}

const (
	minute    = 60_000
	mostUsual = 365 * 24 * 60 * minute
	// MostElapsed is the most that a clock shows, in ms: stamps of any size must not make it overflow.
	MostElapsed = 1 << 62 / 1_000_000
	mostBehind  = 100 // rows far behind it, after which Largest was wrong
)

// Next takes the stamp of the next row, and returns the ms since the largest so far: at most a minute, or ten times what is usual between two rows.
// More than that is a pause, or a wrong stamp. It counts, and as much as that, when the stamp of another row is as far ahead. Where the largest was
// wrong all the same, or the stream goes back, it goes on from the rows after mostBehind of them: that one of many machines has such a clock, too, does
// not keep it.
func (s *Stamps) Next(at, usual int64) (gap int64) {
	most := max(minute, 10*min(usual, mostUsual))
	switch {
	case s.Largest == 0:
		s.set(at)
	case at-s.Largest > most:
		switch {
		case s.Ahead == 0, at == s.Ahead: // rows of one message have one stamp
			s.Ahead = at
		case at < s.Ahead:
			s.set(at)
			return most
		default:
			s.set(s.Ahead)
			return most
		}
	case at > s.Largest:
		gap = at - s.Largest
		s.set(at)
	case s.Largest-at > most:
		s.Ahead = 0
		if s.Behind++; s.Behind >= mostBehind {
			s.set(at)
		}
	default:
		s.Ahead, s.Behind = 0, 0
	}
	return gap
}

func (s *Stamps) set(at int64) { s.Largest, s.Ahead, s.Behind = at, 0, 0 }

// Clock is the time of a series, by the stamps of its rows: a row with a wrong one costs little, and a night without rows is none. The rows of one
// message have one stamp, so that what is usual between two rows is told by those that moved it on.
type Clock struct {
	Stamps
	Rows    int64 `json:"rows"`  // since the restart
	Since   int64 `json:"since"` // ms
	Steps   int64 `json:"all"`   // rows that moved it on; all rows, by a version that did not tell them apart
	Elapsed int64 `json:"elapsed"`
}

// Step moves the clock on by a row; a stamp of 0 is none.
func (c *Clock) Step(at int64) {
	c.Rows++
	if at == 0 {
		return
	}
	gap := c.Next(at, c.Elapsed/max(c.Steps, 1))
	if gap > 0 {
		c.Steps++
	}
	c.Since = min(c.Since+gap, MostElapsed)
	c.Elapsed = min(c.Elapsed+gap, MostElapsed)
}

// Passed reports whether a pause of some ms is over since the restart, or, where no row has a time, of some rows.
func (c *Clock) Passed(pause, rows int64) bool {
	if c.Largest == 0 {
		return c.Rows >= rows
	}
	return c.Since >= pause
}

// Restart begins a pause.
func (c *Clock) Restart() { c.Rows, c.Since = 0, 0 }
