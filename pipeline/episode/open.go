package episode

import "github.com/lca-stream/lca-stream/lca/recent"

// Level is at which scores of a model an episode opens and ends.
type Level struct {
	Height float64 `json:"height"` // a score above it opens an episode
	Usual  float64 `json:"usual"`  // scores up to it are of usual rows
	Young  bool    `json:"young"`
}

// Open is an episode that is open. Its zero value is none; one whose watch follows a run may become one. As JSON it is state.
type Open struct {
	Watch recent.Watch `json:"watch"`
	Level Level        `json:"level"` // at which it has opened
	Seq   int          `json:"seq"`   // of the next record
	From  Place        `json:"from"`
	To    Place        `json:"to"`
	Rows  int64        `json:"rows"` // from…to
	Over  int64        `json:"over"` // of them above the level of their time
	Peak  Peak         `json:"peak"`

	End   end          `json:"end"`
	Seen  int64        `json:"seen"`  // rows since From, with it
	Said  int64        `json:"said"`  // the same, at the last update; 0: there was none
	Above bool         `json:"above"` // the row before was above the level
	Clock recent.Clock `json:"clock"`
}

// end is where an episode ends if its rows are usual from now on: To, Rows and Over without the rows behind its last whose scores fade.
type end struct {
	At    Place   `json:"at"`
	Rows  int64   `json:"rows"`
	Over  int64   `json:"over"`
	Crest float64 `json:"crest"` // the score there, or fadesFrom above what is usual, less fadeRate for each row since
}

const (
	leastPause = 60_000         // ms between two records of an episode, by the clock of its series
	mostPause  = 24 * 3_600_000 // … if there is none for a score that passes the level again
	pauseRows  = 1000           // the same in rows, without a clock
	silentRows = 100_000
	// settledRows is after how many rows it is told again what has changed: the first row says little of that. Then it is told when it has become twice as
	// long, so that its last record is never far behind, and they are few.
	settledRows = 30
	// fadeRate is the largest fall of the score from row to row for which a row still counts as unusual. When a fault ends, the means of the last rows forget it, and
	// the score falls faster: by about .04, as the slowest mean does. Without this rule an episode ended 50 to 150 rows after a fault of 8 standard deviations.
	fadeRate = 0.015
	// fadesFrom is the height above the usual score from which on each row counts as unusual. Otherwise an episode that begins with a glitch of hundreds of standard
	// deviations would end with the glitch.
	fadesFrom = 5
	// movedRows is after how many rows it is told that another column has changed most.
	movedRows = 10
)

// Possible reports whether rows can have led to an open episode like this one: what was read may be what a stranger has written.
func (o *Open) Possible() bool {
	return o.Watch.Possible() && o.Seq > 0 && o.Seen > 0 && o.Clock.Rows >= 0 && o.Clock.Steps >= 0 && o.Clock.Since >= 0 && o.Clock.Elapsed >= 0
}

// Step takes the score of the next row of the series, and p, which is a NaN where it is not known. It returns what is to be said: Opened, Updated, Closed,
// or nothing.
func (o *Open) Step(at Place, score, p float64, l Level) (say string) {
	was, usual := o.Watch.Open, l.Usual
	if was { // later models have learnt from the scores of the episode, too, what is usual
		usual = o.Level.Usual
	}
	l.Height = o.Watch.Judges(l.Height)
	is := o.Watch.Step(score, l.Height, usual)
	switch {
	case !is && !was:
		return ""
	case !was:
		*o = Open{Watch: o.Watch, Level: l, From: at}
		say = Opened
	}
	if was && o.End.Rows == 0 { // the state of an earlier build does not say
		o.End = end{o.To, o.Rows, o.Over, usual}
	}
	passes := score > l.Height && !o.Above
	o.Above = score > l.Height
	if o.Seen++; score > usual || !was {
		o.To, o.Rows = at, o.Seen
	}
	if o.Above {
		o.Over++
	}
	if o.End.Crest -= fadeRate; !was || score > usual && score >= o.End.Crest {
		o.End = end{at, o.Seen, o.Over, min(score, usual+fadesFrom)}
	}
	if score > o.Peak.Score || !was {
		o.Peak = Peak{Score: score, Offset: at.Offset, Row: at.Row}
		if p == p {
			o.Peak.P = &p
		}
	}
	o.Clock.Step(at.Millis())
	switch {
	case !is:
		o.To, o.Rows, o.Over = o.End.At, o.End.Rows, o.End.Over
		return Closed
	case !was:
	case passes && o.Clock.Passed(leastPause, pauseRows), o.Clock.Passed(mostPause, silentRows),
		o.Seen > max(settledRows, 2*o.Said) && score > usual && o.Clock.Passed(leastPause, settledRows):
		o.Said, say = o.Seen, Updated
	}
	if say != "" {
		o.Clock.Restart()
	}
	return say
}

// EndsHere reports whether the row that Step was called with last is the last of the episode, if it is over with those to come.
func (o *Open) EndsHere() bool { return o.End.Rows == o.Seen }

// Tellable reports whether the row that Step was called with last may be one at which it is told again what has changed.
func (o *Open) Tellable(score float64) bool {
	return score > o.Level.Usual && o.Clock.Rows >= movedRows && o.Clock.Passed(leastPause, movedRows)
}

// Tell tells again what has changed.
func (o *Open) Tell() (say string) {
	o.Said = o.Seen
	o.Clock.Restart()
	return Updated
}
