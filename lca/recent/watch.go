package recent

import "math/bits"

// Watch tells when a series is unusual for a while: from the row whose score passes a level until its rows are usual again.
type Watch struct {
	Open  bool      `json:"open"`
	Quiet int       `json:"quiet"` // usual rows since the last that was not
	Last  [4]uint64 `json:"last"`  // of the last 200 rows, which were usual
	At    int       `json:"at"`    // of the next one
}

const (
	quietRows  = runEnds // usual rows in a row, after which all is usual again
	windowRows = 200     // … as it is with more than half of this number
)

// Possible reports whether scores can have led to it, while it is open.
func (w *Watch) Possible() bool {
	return w.Open && w.Quiet >= 0 && w.Quiet < quietRows && w.At >= 0 && w.At < windowRows
}

// Step takes the score of the next row, and returns whether the series is unusual with it.
func (w *Watch) Step(score, level, usual float64) bool {
	if !w.Open {
		if score > level {
			*w = Watch{Open: true}
		}
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

func (w *Watch) usual() (n int) {
	for _, word := range w.Last {
		n += bits.OnesCount64(word)
	}
	return n
}
