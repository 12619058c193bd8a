package sink

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// Link is what all producers of a process share: compression encoders, buffers, and the network link to the brokers.
//
// On a fast link, transactions do not wait for each other. On a slow link, many at a time would all run out of time,
// and so would all of their repetitions: the link would be busy and nothing would be committed. So a transaction that
// runs out of time while its bytes are on their way makes the others take turns, one at a time at first. It also
// lowers the number of bytes that each of them should hold. Quick transactions raise both again. This is the
// congestion control of TCP, with transactions in place of segments.
type Link struct {
	compressor recordbatch.Compressor
	spare      spare

	mu     sync.Mutex
	width  int // concurrent transactions; 0: unlimited
	most   int // bytes per transaction; 0: unlimited
	open   int
	queue  []chan struct{} // transactions that wait for their turn, in order
	cuts   int             // number of times that the link was found to be narrower
	credit int             // earned by quick transactions since the limits were last raised
}

const (
	// leastMost is the lower bound of the bytes per transaction: what 50 kB/s, the slowest supported link, carries in
	// a second or so.
	leastMost = 64 << 10

	// At widest and mostMost the limits are lifted: a process never has more partitions or bytes at a time.
	widest   = 128
	mostMost = 16 << 20

	// A transaction is quick if it takes less than 1/quickPart of its timeout, and nearly late if it takes more than
	// 1/latePart.
	quickPart, latePart = 64, 4

	// credits are needed to raise the limits. A quick transaction that was nearly as large as allowed earns
	// largeCredit, a smaller one smallCredit.
	credits, smallCredit, largeCredit = 16, 1, 8
)

// defaultSpare is how many bytes of buffers the link of a single producer keeps.
const defaultSpare = 16 << 20

// NewLink returns a Link for the producers of one process, which keeps at most spareBytes of buffers for later
// requests.
func NewLink(spareBytes int) *Link { return &Link{spare: spare{most: spareBytes}} }

// bytes returns how many bytes a transaction should hold at most; 0: unlimited.
func (l *Link) bytes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

// enter waits for a turn. Pass the returned count to leave.
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
	} else { // the turn came at the same moment
		l.open--
		l.grant()
	}
	return 0, err
}

func (l *Link) free() bool { return l.width == 0 || l.open < l.width }

// grant admits the waiting transactions whose turn it is.
func (l *Link) grant() {
	for len(l.queue) > 0 && l.free() {
		l.open++
		close(l.queue[0])
		l.queue = l.queue[1:]
	}
}

// leave ends the turn of a transaction, given its size and how long it took of its timeout. late: it ran out of time
// while its bytes were on their way.
func (l *Link) leave(cuts, bytes int, took, timeout time.Duration, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	switch {
	case late && cuts == l.cuts:
		l.cut(1, bytes/4)
	case late: // it was on its way when another one found the same
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

// leastRate is the slowest supported link for messages of 64 kB, in bytes per second.
const leastRate = 50e3

// Most returns how many bytes one Put should hold at most on the current link; 0: unlimited. A larger Put is written,
// but may run out of time.
func (k *Kafka) Most() int { return k.config.Link.bytes() }

// inTurn runs transact when its turn has come. The turn ends with it, before an error is settled, because that may
// wait for a broker for a long time.
func (k *Kafka) inTurn(ctx context.Context, msgs []Message, transact func() error) error {
	link := k.config.Link
	cuts, err := link.enter(ctx)
	if err != nil {
		return err
	}
	k.late.Store(false)
	began := time.Now()
	err = transact()
	bytes, late := size(msgs), err != nil && k.late.Load()
	link.leave(cuts, bytes, time.Since(began), k.config.Timeout, late)
	if late {
		k.stretch(bytes)
	}
	return err
}

// size returns the approximate number of bytes of messages.
func size(msgs []Message) (n int) {
	for i := range msgs {
		n += msgs[i].Size()
	}
	return n
}

// Size returns the approximate number of bytes of the message, uncompressed.
func (m *Message) Size() int {
	const overhead = 16
	n := overhead + len(m.Key) + len(m.Value)
	for _, piece := range m.Rest {
		n += len(piece)
	}
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// patience returns how long a request of the given size may take. On a slow link the answer can begin only when the
// bytes have left the buffers on the way.
func (k *Kafka) patience(bytes int) kafkaconn.Patience {
	p := kafkaconn.Patience{Quiet: k.request}
	if k.config.Link.bytes() > 0 {
		p.Answer = time.Duration(float64(bytes) / leastRate * float64(time.Second))
	}
	return p
}

// tooSlow reports whether a request ran out of time, rather than being refused or cut off.
func tooSlow(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
