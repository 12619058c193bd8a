package episode

import "time"

// Stamps are those of rows, as far as they tell how much time has passed.
type Stamps struct {
	Largest time.Time `json:"largest"` // zero: none
	Ahead   time.Time `json:"ahead"`   // a stamp far beyond it, which no other row has confirmed; zero: none
	Behind  int       `json:"behind"`  // rows in a row that are far behind it
}

const (
	mostUsual   = 365 * 24 * time.Hour
	mostElapsed = time.Duration(1 << 62) // stamps of any size must not make it overflow
	mostBehind  = 100                    // rows, after which Largest was wrong
)

// next takes the stamp of the next row, and returns the time since the largest so far: at most a minute, or ten times what is usual between two rows.
// More than that is a pause, or a wrong stamp. It counts, and as much as that, when the stamp of another row is as far ahead. Where the largest was
// wrong all the same, or the stream goes back, it goes on from the rows after mostBehind of them.
func (s *Stamps) next(at time.Time, usual time.Duration) (gap time.Duration) {
	most := max(time.Minute, 10*min(usual, mostUsual))
	switch {
	case s.Largest.IsZero():
		s.set(at)
	case at.Sub(s.Largest) > most:
		switch s.Behind = 0; {
		case s.Ahead.IsZero(), at.Equal(s.Ahead): // rows of one message have one stamp
			s.Ahead = at
		case at.Before(s.Ahead):
			s.set(at)
			return most
		default:
			s.set(s.Ahead)
			return most
		}
	case at.After(s.Largest):
		gap = at.Sub(s.Largest)
		s.set(at)
	case s.Largest.Sub(at) > most:
		s.Ahead = time.Time{}
		if s.Behind++; s.Behind >= mostBehind {
			s.set(at)
		}
	default:
		s.Ahead, s.Behind = time.Time{}, 0
	}
	return gap
}

func (s *Stamps) set(at time.Time) { s.Largest, s.Ahead, s.Behind = at, time.Time{}, 0 }
