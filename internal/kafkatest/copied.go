package kafkatest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// Copied is a request that the network keeps, and may deliver as late and as often as the test likes.
type Copied struct {
	Sent    <-chan struct{} // closed when the request is here as a whole
	address string
	bytes   []byte
}

// Copy keeps a copy of the next request with this key, which goes its way.
func (w *Wire) Copy(key int16) *Copied { return w.copy(key, pass) }

// Steal keeps the next request with this key. It does not reach the broker, and the client waits for an answer.
func (w *Wire) Steal(key int16) *Copied { return w.copy(key, steal) }

func (w *Wire) copy(key int16, how action) *Copied {
	held := make(chan struct{})
	c := &Copied{Sent: held}
	w.add(&rule{key: key, action: how, held: held, copied: c})
	return c
}

// Request is what was sent, its size included.
func (c *Copied) Request() []byte { <-c.Sent; return c.bytes }

// Deliver sends the request to the broker that it was for, on a connection of its own, and returns the
// answer with its header, without its size.
func (c *Copied) Deliver() ([]byte, error) {
	conn, err := net.DialTimeout("tcp", c.address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := conn.Write(c.Request()); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, fmt.Errorf("the answer to a request that was delivered late: %w", err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err = io.ReadFull(conn, answer)
	return answer, err
}
