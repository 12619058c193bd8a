package recent

import (
	"math"
	"math/bits"
)

// Watch tells when a series is unusual for a while: from the row whose score passes a level until its rows are usual again.
type Watch struct {
	Open  bool      `json:"open"`
	Quiet int       `json:"quiet"` // usual rows since the last that was not, in a run
	Last  [4]uint64 `json:"last"`  // of the last 200 rows, which were usual
	At    int       `json:"at"`    // of the next one

	// Level is what rows are judged by at most before it is open: that of the row with which a run of them began that are not usual. Where many series of a model
	// fail at once, their own peaks raise the level row by row. 0: there is no run.
	Level float64 `json:"level,omitempty"`
}

const (
	quietRows  = runEnds // usual rows in a row, after which all is usual again
	windowRows = 200     // … as it is with more than half of this number
)

// Possible reports whether scores can have led to it, while it is open.
func (w *Watch) Possible() bool {
	return w.Open && w.Level == 0 && w.Quiet >= 0 && w.Quiet < quietRows && w.At >= 0 && w.At < windowRows
}

// PossibleRun reports whether scores can have led to it, before it is open.
func (w *Watch) PossibleRun() bool {
	return !w.Open && w.Level != 0 && w.Level-w.Level == 0 && w.Quiet >= 0 && w.Quiet < quietRows
}

// Judges returns what the next row is judged by, where the model's level is the one given.
func (w *Watch) Judges(level float64) float64 {
	if w.Open || w.Level == 0 {
		return level
	}
	return min(level, w.Level)
}

// Step takes the score of the next row, and returns whether the series is unusual with it.
func (w *Watch) Step(score, level, usual float64) bool {
	if !w.Open {
		w.follow(score, w.Judges(level), usual)
		return w.Open
	}
	bit := uint64(1) << (w.At % 64)
	if score <= usual {
		w.Quiet++
		w.Last[w.At/64] |= bit
	} else {
		w.Quiet = 0
		w.Last[w.At/64] &^= bit
	}
	w.At = (w.At + 1) % windowRows
	if w.Quiet >= quietRows || w.usual() > windowRows/2 {
		*w = Watch{}
	}
	return w.Open
}

// follow moves a run on, or opens it, by a score and the level that it is judged by.
func (w *Watch) follow(score, level, usual float64) {
	switch w.Quiet++; {
	case score > level:
		*w = Watch{Open: true}
	case score > usual && level < math.Inf(1):
		*w = Watch{Level: level}
	case w.Level == 0 || w.Quiet >= quietRows:
		*w = Watch{}
	}
}

func (w *Watch) usual() (n int) {
	for _, word := range w.Last {
		n += bits.OnesCount64(word)
	}
	return n
}
