package episode

import (
	"time"

	"github.com/lca-stream/lca-stream/lca/recent"
)

// Level is at which scores of a model an episode opens and ends.
type Level struct {
	Height float64 `json:"height"` // a score above it opens an episode
	Usual  float64 `json:"usual"`  // scores up to it are of usual rows
	Young  bool    `json:"young"`
}

// Open is an episode that is open. Its zero value is none. As JSON it is state.
type Open struct {
	Watch recent.Watch `json:"watch"`
	Level Level        `json:"level"` // at which it has opened
	Seq   int          `json:"seq"`   // of the next record
	From  Place        `json:"from"`
	To    Place        `json:"to"`
	Rows  int64        `json:"rows"` // from…to
	Over  int64        `json:"over"` // of them above the level of their time
	Peak  Peak         `json:"peak"`

	Seen  int64 `json:"seen"`  // rows since From, with it
	Above bool  `json:"above"` // the row before was above the level
	Told  bool  `json:"told"`  // it has been updated
	Clock Clock `json:"clock"`
}

const (
	leastPause = time.Minute    // between two records of an episode, by the clock of its series
	mostPause  = 24 * time.Hour // … if there is none for a score that passes the level again
	pauseRows  = 1000           // the same in rows, without a clock
	silentRows = 100_000
	// settledRows is after how many rows it is told again what has changed: the first row says little of that.
	settledRows = 30
)

// Possible reports whether rows can have led to an open episode like this one: what was read may be what a stranger has written.
func (o *Open) Possible() bool {
	return o.Watch.Possible() && o.Seq > 0 && o.Seen > 0 && o.Clock.Rows >= 0 && o.Clock.All > 0 && o.Clock.Since >= 0 && o.Clock.Elapsed >= 0
}

// Step takes the score of the next row of the series, and p, which is a NaN where it is not known. It returns what is to be said: Opened, Updated, Closed,
// or nothing.
func (o *Open) Step(at Place, score, p float64, l Level) (say string) {
	was, usual := o.Watch.Open, l.Usual
	if was { // later models have learnt from the scores of the episode, too, what is usual
		usual = o.Level.Usual
	}
	is := o.Watch.Step(score, l.Height, usual)
	switch {
	case !is && !was:
		return ""
	case !was:
		*o = Open{Watch: o.Watch, Level: l, From: at}
		say = Opened
	}
	passes := score > l.Height && !o.Above
	o.Above = score > l.Height
	if o.Seen++; score > usual || !was {
		o.To, o.Rows = at, o.Seen
	}
	if o.Above {
		o.Over++
	}
	if score > o.Peak.Score || !was {
		o.Peak = Peak{Score: score, Offset: at.Offset, Row: at.Row}
		if p == p {
			o.Peak.P = &p
		}
	}
	o.Clock.step(at.Time)
	switch {
	case !is:
		return Closed
	case !was:
	case passes && o.Clock.passed(leastPause, pauseRows), o.Clock.passed(mostPause, silentRows),
		!o.Told && o.Seen > settledRows && score > usual && o.Clock.passed(leastPause, settledRows):
		o.Told, say = true, Updated
	}
	if say != "" {
		o.Clock.restart()
	}
	return say
}

// Clock is the time of a series, by the stamps of its rows: a row with a wrong one costs little, and a night without rows is none.
type Clock struct {
	Stamps
	Rows    int64         `json:"rows"` // since the restart
	Since   time.Duration `json:"since"`
	All     int64         `json:"all"` // since it began
	Elapsed time.Duration `json:"elapsed"`
}

// step moves the clock on by a row.
func (c *Clock) step(at *time.Time) {
	c.Rows++
	c.All++
	if at == nil {
		return
	}
	gap := c.next(*at, c.Elapsed/time.Duration(c.All))
	c.Since = min(c.Since+gap, mostElapsed)
	c.Elapsed = min(c.Elapsed+gap, mostElapsed)
}

// passed reports whether a pause is over since the restart: in time, or, where no row has a time, in rows.
func (c *Clock) passed(pause time.Duration, rows int64) bool {
	if c.Largest.IsZero() {
		return c.Rows >= rows
	}
	return c.Since >= pause
}

func (c *Clock) restart() { c.Rows, c.Since = 0, 0 }
