package sink

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// Link is what all producers of a process share: the encoders of compression, buffers, and the way to the brokers.
//
// On a quick link every transaction has its way at once. On a slow one, many at a time would all be too late,
// and so would be each of their repetitions: nothing is ever committed, though the link is busy all the time.
// So a transaction that runs out of time while its bytes are on their way makes the others wait for their
// turn, one at a time at first, and says how much each should hold at most; transactions that are quick widen
// both again. It is the congestion control of TCP with transactions for segments.
type Link struct {
	compressor recordbatch.Compressor
	spare      spare

	mu     sync.Mutex
	width  int // transactions at a time; 0: any number
	most   int // bytes of each; 0: any number
	open   int
	queue  []chan struct{} // of those that wait for their turn, in order
	cuts   int             // how often the way was found to be narrower
	credit int             // for quick transactions since it was last widened
}

const (
	// leastMost is the least that a transaction is cut to: what a message has at the least link that is
	// promised, 50 kB/s, for a second.
	leastMost = 64 << 10

	// widest and mostMost are what is no longer counted: more partitions or bytes than a process has at a time.
	widest   = 128
	mostMost = 16 << 20

	// Parts of the transaction's timeout: what takes less than quickPart is quick, and what takes longer than latePart is
	// nearly too late.
	quickPart, latePart = 64, 4

	// credits are due for widening. A quick transaction that was nearly as large as it may be says more than a small one.
	credits, smallCredit, largeCredit = 16, 1, 8
)

// NewLink returns a Link for the producers of one process.
func NewLink() *Link { return &Link{} }

// bytes returns how much a transaction should hold at most; 0: any number.
func (l *Link) bytes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

// enter waits for a turn. What it returns is for leave.
func (l *Link) enter(ctx context.Context) (cuts int, err error) {
	l.mu.Lock()
	if len(l.queue) == 0 && l.free() {
		l.open++
		cuts = l.cuts
		l.mu.Unlock()
		return cuts, nil
	}
	turn := make(chan struct{})
	l.queue = append(l.queue, turn)
	l.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		return l.cuts, nil
	}
	if at := slices.Index(l.queue, turn); at >= 0 {
		l.queue = slices.Delete(l.queue, at, at+1)
	} else { // it came at the same moment
		l.open--
		l.grant()
	}
	return 0, err
}

func (l *Link) free() bool { return l.width == 0 || l.open < l.width }

// grant lets those in who have their turn now.
func (l *Link) grant() {
	for len(l.queue) > 0 && l.free() {
		l.open++
		close(l.queue[0])
		l.queue = l.queue[1:]
	}
}

// leave ends a turn: a transaction of so many bytes that took so long of its timeout. late: its time ran out while
// bytes were on their way.
func (l *Link) leave(cuts, bytes int, took, timeout time.Duration, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	switch {
	case late && cuts == l.cuts:
		l.cut(1, bytes/4)
	case late: // it was on its way when another found the same
	case took > timeout/latePart && cuts == l.cuts && bytes > leastMost:
		l.cut(max(l.width/2, 1), bytes/2)
	case took < timeout/quickPart:
		l.widen(bytes)
	}
	l.grant()
}

func (l *Link) cut(width, bytes int) {
	l.cuts++
	l.credit = 0
	l.width = width
	if l.most > 0 {
		bytes = min(bytes, l.most)
	}
	l.most = max(bytes, leastMost)
}

func (l *Link) widen(bytes int) {
	if l.width == 0 && l.most == 0 {
		return
	}
	l.credit += smallCredit
	if bytes >= l.most/2 {
		l.credit += largeCredit
	}
	if l.credit < credits {
		return
	}
	l.credit = 0
	if l.width *= 2; l.width > widest {
		l.width = 0
	}
	if l.most *= 2; l.most > mostMost {
		l.most = 0
	}
}
