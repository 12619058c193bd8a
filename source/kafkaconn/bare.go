package kafkaconn

import (
	"bufio"
	"io"
	"net"
)

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
