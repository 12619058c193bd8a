package sink

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// leastRate is the slowest link on which messages of 64 kB are promised to pass, bytes per second.
const leastRate = 50e3

// Most is how many bytes one Put should hold at most for the link as it is; 0: any number. What is larger is put
// all the same, and may be too late.
func (k *Kafka) Most() int { return k.config.Link.bytes() }

// inTurn is a transaction when its turn has come. The turn ends with it, and before what went wrong is settled,
// because that may wait for a broker for long.
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

// size is about how many bytes messages take.
func size(msgs []Message) (n int) {
	for i := range msgs {
		n += msgs[i].Size()
	}
	return n
}

// Size is about how many bytes the message takes, uncompressed.
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

// patience is that of a request of so many bytes. On a link that was found to be slow the answer may begin only
// when they have left the buffers on the way.
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
