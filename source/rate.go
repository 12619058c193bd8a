package source

import (
	"sync"
	"time"
)

// Rate bounds how many batches per second all readers that share it give. What was not used of the last
// allowance is not lost: after a pause that number may come at once.
type Rate struct {
	interval time.Duration // between two batches
	saved    time.Duration // the longest pause that counts

	mu   sync.Mutex
	next time.Time // when the next batch is due
}

// allowance is the longest pause of a Rate whose batches may come at once after it: long enough that batches
// at random times rarely wait for one another, and short enough to be no burst that a broker would notice.
const allowance = 100 * time.Millisecond

// NewRate returns a bound of that number of batches per second, at least one.
func NewRate(perSecond int) *Rate {
	return &Rate{interval: time.Second / time.Duration(max(perSecond, 1)), saved: allowance}
}

// reserve takes the next turn, and returns how long it is until then.
func (r *Rate) reserve(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if earliest := now.Add(-r.saved); r.next.Before(earliest) {
		r.next = earliest
	}
	turn := r.next
	r.next = turn.Add(r.interval)
	return max(turn.Sub(now), 0)
}
