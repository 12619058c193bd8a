package source

import "time"

// pace is how many bytes a reader requests at a time, as far as the link decides: few at first, twice as many while
// answers are quick, and half as many when they are slow. On a link of 50 kB/s, full-size answers for 64 partitions
// that catch up would take most of an hour, and nothing could be committed before the first of them was there.
type pace struct{ bytes int }

const (
	leastPace = 64 << 10
	mostPace  = 64 << 20 // more than any configuration requests

	// After an answer within quickAnswer more bytes are requested, after one of slowAnswer fewer.
	quickAnswer = time.Second
	slowAnswer  = 5 * time.Second

	// longestAnswer bounds an answer whose bytes come all the time.
	longestAnswer = 10 * time.Minute
)

// limit returns how many bytes to request, at most want.
func (p *pace) limit(want int) int {
	if p.bytes == 0 {
		p.bytes = leastPace
	}
	return min(want, p.bytes)
}

// took notes the duration of an answer. A late answer that was not full says nothing about the link, because the broker
// had waited for records.
func (p *pace) took(d time.Duration, bytes int) {
	switch full := bytes >= p.bytes/2; {
	case !full:
	case d < quickAnswer:
		p.bytes = min(2*p.bytes, mostPace)
	case d > slowAnswer:
		p.bytes = max(p.bytes/2, leastPace)
	}
}
