package kafkaconn

import (
	"context"
	"io"
	"time"
)

// Patience is how long a request may go without progress: one whose bytes are still moving is not given up
// before its context ends, however slow the link. The zero value knows the context alone.
type Patience struct {
	Quiet  time.Duration // without a byte written or read
	Answer time.Duration // beyond Quiet, until the answer begins: what was written may stand in buffers on the way
}

// progressChunk is what must pass within Quiet: at 15 s that is 1 kB/s.
const progressChunk = 16 << 10

// deadlines is what connections have.
type deadlines interface {
	io.ReadWriter
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// of returns the connection with this patience.
func (p Patience) of(ctx context.Context, rw io.ReadWriter) io.ReadWriter {
	conn, ok := rw.(deadlines)
	if p.Quiet <= 0 || !ok {
		return rw
	}
	until, bounded := ctx.Deadline()
	return &progress{conn: conn, quiet: p.Quiet, answer: p.Answer, until: until, bounded: bounded}
}

// progress moves a connection's deadline on with its bytes.
type progress struct {
	conn          deadlines
	quiet, answer time.Duration
	until         time.Time // of the context, if bounded
	bounded       bool
}

func (p *progress) deadline(d time.Duration) time.Time {
	at := time.Now().Add(d)
	if p.bounded && p.until.Before(at) {
		return p.until
	}
	return at
}

// Write writes in pieces: a connection with TLS cannot go on after a piece that was late.
func (p *progress) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		if err := p.conn.SetWriteDeadline(p.deadline(p.quiet)); err != nil {
			return n, err
		}
		m, err := p.conn.Write(b[:min(len(b), progressChunk)])
		n += m
		if err != nil {
			return n, err
		}
		b = b[m:]
	}
	return n, nil
}

// Read reads what there is.
func (p *progress) Read(b []byte) (int, error) {
	if err := p.conn.SetReadDeadline(p.deadline(p.quiet + p.answer)); err != nil {
		return 0, err
	}
	n, err := p.conn.Read(b)
	if n > 0 {
		p.answer = 0
	}
	return n, err
}
