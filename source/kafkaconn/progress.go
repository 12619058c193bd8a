package kafkaconn

import (
	"context"
	"io"
	"time"
)

// Patience is how long a request may go without progress. While its bytes are moving it is not given up before its
// context ends, however slow the link is. The zero value waits for the context only.
type Patience struct {
	Quiet  time.Duration // longest time without a byte written or read
	Answer time.Duration // added to Quiet until the answer begins, because written bytes may still be in buffers on the way
}

// progressChunk is the number of bytes that must pass within Quiet: at 15 s that is 1 kB/s.
const progressChunk = 16 << 10

// deadlines is implemented by network connections.
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

// progress extends a connection's deadline whenever bytes move.
type progress struct {
	conn          deadlines
	quiet, answer time.Duration
	until         time.Time // the context's deadline, if there is one
	bounded       bool
}

func (p *progress) deadline(d time.Duration) time.Time {
	at := time.Now().Add(d)
	if p.bounded && p.until.Before(at) {
		return p.until
	}
	return at
}

// Write writes in pieces, because a TLS connection cannot continue after a piece that timed out.
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

// Read returns what is available.
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
