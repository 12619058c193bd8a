package recent

import "math/bits"

// Watch tells when a series is unusual for a while: from the row whose score passes a level until its rows are usual again.
type Watch struct {
	Open  bool
	quiet int       // usual rows since the last that was not
	last  [4]uint64 // of the last 200 rows, which were usual
	at    int       // of the next one
}

const (
	quietRows  = runEnds // usual rows in a row, after which all is usual again
	windowRows = 200     // … as it is with more than half of this number
)

// Step takes the score of the next row, and returns whether the series is unusual with it.
func (w *Watch) Step(score, level, usual float64) bool {
	if !w.Open {
		if score > level {
			*w = Watch{Open: true}
		}
		return w.Open
	}
	bit := uint64(1) << (w.at % 64)
	if score <= usual {
		w.quiet++
		w.last[w.at/64] |= bit
	} else {
		w.quiet = 0
		w.last[w.at/64] &^= bit
	}
	w.at = (w.at + 1) % windowRows
	if w.quiet >= quietRows || w.usual() > windowRows/2 {
		*w = Watch{}
	}
	return w.Open
}

func (w *Watch) usual() (n int) {
	for _, word := range w.last {
		n += bits.OnesCount64(word)
	}
	return n
}
