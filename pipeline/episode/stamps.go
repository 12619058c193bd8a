package episode

import "time"

// Stamps are those of rows, as far as they tell how much time has passed.
type Stamps struct {
	Largest time.Time `json:"largest"` // zero: none
}

const (
	mostUsual   = 365 * 24 * time.Hour
	mostElapsed = time.Duration(1 << 62) // stamps of any size must not make it overflow
)

// next takes the stamp of the next row, and returns the time since the largest so far: at most a minute, or ten times what is usual between two rows.
func (s *Stamps) next(at time.Time, usual time.Duration) (gap time.Duration) {
	if !s.Largest.IsZero() && !at.After(s.Largest) {
		return 0
	}
	if !s.Largest.IsZero() {
		gap = min(at.Sub(s.Largest), max(time.Minute, 10*min(usual, mostUsual)))
	}
	s.Largest = at
	return gap
}
