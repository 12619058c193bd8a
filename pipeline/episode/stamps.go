package episode

import "time"

// stamps are those of rows, as far as they tell how much time has passed.
type stamps struct{ largest time.Time }

// next takes the stamp of the next row, and returns the time since the largest so far: at most a minute, or ten times what is usual between two rows.
func (s *stamps) next(at time.Time, usual time.Duration) (gap time.Duration) {
	if !s.largest.IsZero() && !at.After(s.largest) {
		return 0
	}
	if !s.largest.IsZero() {
		gap = min(at.Sub(s.largest), max(time.Minute, 10*usual))
	}
	s.largest = at
	return gap
}
