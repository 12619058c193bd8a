package source

import "time"

// pace is how many bytes a reader asks for at a time, as far as the link decides: little at first, twice as much
// while answers come at once, and half of it when they take long. On a link of 50 kB/s whole answers for 64
// partitions that catch up would take most of an hour, and nothing could be committed before the first of
// them is there.
type pace struct{ bytes int }

const (
	leastPace = 64 << 10
	mostPace  = 64 << 20 // what no configuration asks for

	// An answer of quickAnswer is worth more bytes, one of slowAnswer fewer.
	quickAnswer = time.Second
	slowAnswer  = 5 * time.Second

	// longestAnswer bounds an answer whose bytes come all the time.
	longestAnswer = 10 * time.Minute
)

// limit returns how much to ask for where so much is wanted.
func (p *pace) limit(want int) int {
	if p.bytes == 0 {
		p.bytes = leastPace
	}
	return min(want, p.bytes)
}

// took notes an answer of so many bytes. One that was not full says nothing of the link when it is late:
// the broker had waited for records.
func (p *pace) took(d time.Duration, bytes int) {
	switch full := bytes >= p.bytes/2; {
	case !full:
	case d < quickAnswer:
		p.bytes = min(2*p.bytes, mostPace)
	case d > slowAnswer:
		p.bytes = max(p.bytes/2, leastPace)
	}
}
