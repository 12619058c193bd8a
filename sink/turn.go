package sink

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

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
