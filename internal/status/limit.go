package status

import (
	"net"
	"sync"
)

// limit bounds the connections that are open at once: one more is closed at once, so that a flood
// of slow clients costs neither memory nor file descriptors.
func limit(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, free: make(chan struct{}, n)}
}

type limited struct {
	net.Listener
	free chan struct{}
}

// Accept returns the next connection that there is room for.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
			return &counted{Conn: c, done: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			_ = c.Close()
		}
	}
}

type counted struct {
	net.Conn
	done func()
}

// Close gives the room back, once.
func (c *counted) Close() error {
	c.done()
	return c.Conn.Close()
}
