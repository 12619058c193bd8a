package episode

import (
	"time"

	"github.com/lca-stream/lca-stream/lca/recent"
)

// Level is at which scores of a model an episode opens and ends.
type Level struct {
	Height float64 // a score above it opens an episode
	Usual  float64 // scores up to it are of usual rows
	Young  bool
}

// Open is an episode that is open. Its zero value is none.
type Open struct {
	Watch    recent.Watch
	Level    Level // at which it has opened
	Seq      int   // of the next record
	From, To Place
	Rows     int64 // from…to
	Over     int64 // of them above the level of their time
	Peak     Peak

	seen  int64 // rows since From, with it
	above bool  // the row before was above the level
	clock clock
}

const (
	leastPause = time.Minute    // between two records of an episode, by the clock of its series
	mostPause  = 24 * time.Hour // … if there is none for a score that passes the level again
	pauseRows  = 1000           // the same in rows, without a clock
	silentRows = 100_000
)

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
	passes := score > l.Height && !o.above
	o.above = score > l.Height
	if o.seen++; score > usual || !was {
		o.To, o.Rows = at, o.seen
	}
	if o.above {
		o.Over++
	}
	if score > o.Peak.Score || !was {
		o.Peak = Peak{Score: score, Offset: at.Offset, Row: at.Row}
		if p == p {
			o.Peak.P = &p
		}
	}
	o.clock.step(at.Time)
	switch {
	case !is:
		return Closed
	case was && (passes && o.clock.passed(leastPause, pauseRows) || o.clock.passed(mostPause, silentRows)):
		say = Updated
	}
	if say != "" {
		o.clock.restart()
	}
	return say
}

// clock is the time of a series, by the stamps of its rows: a row with a wrong one costs little, and a night without rows is none.
type clock struct {
	stamps
	rows    int64 // since the restart
	since   time.Duration
	all     int64 // since it began
	elapsed time.Duration
}

// step moves the clock on by a row.
func (c *clock) step(at *time.Time) {
	c.rows++
	c.all++
	if at == nil {
		return
	}
	gap := c.next(*at, c.elapsed/time.Duration(c.all))
	c.since += gap
	c.elapsed += gap
}

// passed reports whether a pause is over since the restart: in time, or, where no row has a time, in rows.
func (c *clock) passed(pause time.Duration, rows int64) bool {
	if c.largest.IsZero() {
		return c.rows >= rows
	}
	return c.since >= pause
}

func (c *clock) restart() { c.rows, c.since = 0, 0 }
