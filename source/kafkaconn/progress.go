package kafkaconn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// Patience is how long a request may go without progress. While its bytes are moving it is not given up before its
// context ends, however slow the link is. The zero value waits for the context only.
type Patience struct {
	Quiet  time.Duration // longest time without a byte written or read
	Answer time.Duration // added to Quiet until the answer begins, because written bytes may still be in buffers on the way
}

// progressChunk is the number of bytes that must pass an encrypted connection within Quiet: at 15 s that is 1 kB/s.
const progressChunk = 16 << 10

// deadlines is implemented by network connections.
type deadlines interface {
	io.ReadWriter
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

func (p Patience) of(ctx context.Context, rw io.ReadWriter) io.ReadWriter {
	conn, ok := rw.(deadlines)
	if p.Quiet <= 0 || !ok {
		return rw
	}
	return &progress{ctx: ctx, conn: conn, bare: bareOf(conn), quiet: p.Quiet, answer: p.Answer}
}

// progress extends a connection's deadline whenever bytes move.
type progress struct {
	ctx           context.Context // its end ends a write
	conn          deadlines
	bare          *net.TCPConn // the connection in conn, if it is not encrypted
	quiet, answer time.Duration
}

func (p *progress) deadline(d time.Duration) time.Time {
	at := time.Now().Add(d)
	if until, ok := p.ctx.Deadline(); ok && until.Before(at) {
		return until
	}
	return at
}

// Write writes all of b.
func (p *progress) Write(b []byte) (int, error) {
	if p.bare != nil {
		n, err := p.writeBare(net.Buffers{b})
		return int(n), err
	}
	return p.writeChunks(b)
}

// writeBare writes all pieces. What was written before a deadline counts, so the system may take as much at a time
// as it likes, and a link without progress is found after twice Quiet at the latest.
func (p *progress) writeBare(pieces net.Buffers) (n int64, err error) {
	err = p.untilEnd(func() error {
		for len(pieces) > 0 {
			if err := p.extend(); err != nil {
				return err
			}
			m, err := pieces.WriteTo(p.bare)
			n += m
			if err != nil && (m == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
				return err
			}
		}
		return nil
	})
	return n, err
}

// writeChunks writes b in pieces, because a TLS connection cannot continue after one that timed out.
func (p *progress) writeChunks(b []byte) (n int, err error) {
	err = p.untilEnd(func() error {
		for len(b) > 0 {
			if err := p.extend(); err != nil {
				return err
			}
			m, err := p.conn.Write(b[:min(len(b), progressChunk)])
			n += m
			if err != nil {
				return err
			}
			b = b[m:]
		}
		return nil
	})
	return n, err
}

// extend gives the next write its time.
func (p *progress) extend() error {
	if err := p.conn.SetWriteDeadline(p.deadline(p.quiet)); err != nil {
		return err
	}
	return p.ctx.Err() // after the deadline was set: untilEnd sets another
}

// untilEnd runs a write that ends with the context.
func (p *progress) untilEnd(write func() error) error {
	stop := context.AfterFunc(p.ctx, func() { _ = p.conn.SetWriteDeadline(time.Unix(1, 0)) })
	err := write()
	if !stop() { // the connection's deadline is past, or will be, and is not what the write failed for
		return p.ctx.Err()
	}
	return err
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

// bare is a TCP connection without encryption. kafka-go wraps connections, but passes on their address, and with it
// the connection itself, which writev needs.
type bare struct{ *net.TCPConn }

// LocalAddr returns the local address, and carries the connection.
func (b bare) LocalAddr() net.Addr { return bareAddr{b.TCPConn.LocalAddr(), b.TCPConn} }

type bareAddr struct {
	net.Addr
	conn *net.TCPConn
}

// bareOf returns the connection that kafka-go has wrapped; nil if it is encrypted, or no TCP connection.
func bareOf(conn deadlines) *net.TCPConn {
	if c, ok := conn.(interface{ LocalAddr() net.Addr }); ok {
		a, _ := c.LocalAddr().(bareAddr)
		return a.conn
	}
	return nil
}

// WritePieces writes pieces, one after the other, to what Write of a Request or a Question is given. On a connection
// without encryption they are not joined first (writev). The end of the request's context ends the write, so it
// never takes long until the pieces are no longer in use. The slice is used up.
func WritePieces(w io.Writer, pieces net.Buffers) error {
	if p, ok := w.(*progress); ok && p.bare != nil {
		_, err := p.writeBare(pieces)
		return err
	}
	b := bufio.NewWriterSize(w, progressChunk) // each Write would become a record of TLS
	for _, piece := range pieces {
		if _, err := b.Write(piece); err != nil {
			return err
		}
	}
	return b.Flush()
}
