package sink_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// Wire is a network between a client and the brokers that a test can break at one request:
//
//	w := &Wire{}
//	kafkaconn.Config{Dial: w.Dial, …}
//	w.CutAfter(26)                    // the next EndTxn is carried out, and its answer lost
//	held, release := w.Hold(26)       // the next EndTxn waits on the way, for as long as the test likes
//
// Requests are told apart by their API key (https://kafka.apache.org/protocol#protocol_api_keys).
type Wire struct {
	mu    sync.Mutex
	rules []*rule
	seen  map[int16]int
	conns []net.Conn
	still chan struct{} // not nil while paused
}

type rule struct {
	key    int16
	action action
	held   chan struct{}
	free   chan struct{}
	copied *Copied
}

type action int

const (
	cutBefore action = iota + 1
	cutAfter
	hold
	pass  // and keep a copy
	steal // the copy is all that there is
)

// CutBefore breaks the connection instead of sending the next request with this key.
func (w *Wire) CutBefore(key int16) { w.add(&rule{key: key, action: cutBefore}) }

// CutAfter sends the next request with this key, waits until the broker has answered, and breaks
// the connection instead of passing the answer on.
func (w *Wire) CutAfter(key int16) { w.add(&rule{key: key, action: cutAfter}) }

// Hold keeps the next request with this key on the way. held is closed when it is there; release
// lets it go on to the broker, even if the client has stopped waiting for it.
func (w *Wire) Hold(key int16) (held <-chan struct{}, release func()) {
	r := &rule{key: key, action: hold, held: make(chan struct{}), free: make(chan struct{})}
	w.add(r)
	return r.held, sync.OnceFunc(func() { close(r.free) })
}

// Pause holds every request on the way, as if the client's process stood still, until resume.
func (w *Wire) Pause() (resume func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	still := make(chan struct{})
	w.still = still
	return sync.OnceFunc(func() {
		w.mu.Lock()
		w.still = nil
		w.mu.Unlock()
		close(still)
	})
}

func (w *Wire) paused() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.still
}

// Count is how many requests with this key were sent.
func (w *Wire) Count(key int16) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[key]
}

// Break ends all connections. New ones open.
func (w *Wire) Break() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// Idle reports whether every rule has been used up.
func (w *Wire) Idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.rules) == 0
}

func (w *Wire) add(r *rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, r)
}

// take returns the oldest rule for key, and removes it.
func (w *Wire) take(key int16) *rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = make(map[int16]int)
	}
	w.seen[key]++
	for i, r := range w.rules {
		if r.key == key {
			w.rules = append(w.rules[:i:i], w.rules[i+1:]...)
			return r
		}
	}
	return nil
}

// Dial connects like net.Dialer.
func (w *Wire) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, c)
	return &wireConn{Conn: c, wire: w}, nil
}

// wireConn follows the frames a client sends: 4 bytes of size, then 2 of API key.
type wireConn struct {
	net.Conn
	wire *Wire
	head []byte // of a frame, until its key is known
	left int    // bytes of the frame that are still to come
	mute bool   // the next answer is swallowed
	copy *rule  // the current frame is copied for it
	held *rule  // the current frame waits for it
	late []byte // what waits

	mu      sync.Mutex
	waiting bool // a frame is on its way, and arrives whatever the client does
	closed  bool // by the client, while one was
}

func (c *wireConn) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		if c.left > 0 {
			m := min(c.left, len(p)-n)
			if err := c.forward(p[n : n+m]); err != nil {
				return n, err
			}
			n += m
			continue
		}
		c.head = append(c.head, p[n])
		n++
		if len(c.head) == 6 {
			if err := c.frame(); err != nil {
				return n, err
			}
		}
	}
	return len(p), nil
}

// frame decides what becomes of the frame whose first six bytes are in c.head, and sends those.
func (c *wireConn) frame() error {
	if still := c.wire.paused(); still != nil {
		<-still
	}
	r := c.wire.take(int16(binary.BigEndian.Uint16(c.head[4:])))
	if r != nil {
		switch r.action {
		case cutBefore:
			return c.cut("write")
		case cutAfter:
			c.mute = true
		case hold:
			c.held, c.late = r, nil
		case pass, steal:
			c.copy = r
			r.copied.address = c.RemoteAddr().String()
		}
	}
	c.left = int(binary.BigEndian.Uint32(c.head)) + 4
	err := c.forward(c.head)
	c.head = c.head[:0]
	return err
}

// forward sends some bytes of a frame on their way.
func (c *wireConn) forward(p []byte) error {
	c.left -= len(p)
	if r := c.held; r != nil {
		if c.late = append(c.late, p...); c.left == 0 {
			c.held = nil
			c.waits(true)
			go c.deliver(r, c.late)
		}
		return nil
	}
	r := c.copy
	if r != nil {
		r.copied.bytes = append(r.copied.bytes, p...)
		if c.left == 0 {
			c.copy = nil
			close(r.held)
		}
		if r.action == steal {
			return nil
		}
	}
	_, err := c.Conn.Write(p)
	return err
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.mute {
		return 0, c.cut("read")
	}
	return n, err
}

func (c *wireConn) cut(op string) error {
	_ = c.Conn.Close()
	return &net.OpError{Op: op, Net: "tcp", Addr: c.RemoteAddr(), Err: syscall.ECONNRESET}
}

// deliver sends a frame that was held.
func (c *wireConn) deliver(r *rule, frame []byte) {
	close(r.held)
	<-r.free
	_, _ = c.Conn.Write(frame) // a broken connection is the client's to find
	c.waits(false)
}

func (c *wireConn) waits(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting = yes; !yes && c.closed {
		_ = c.Conn.Close()
	}
}

// Close closes the connection, once a frame that is held has gone on to the broker.
func (c *wireConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting {
		c.closed = true
		return c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
	return c.Conn.Close()
}

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
