package status

import (
	"container/list"
	"net"
	"sync"
)

// limit bounds the number of open connections. When one more comes, the oldest is closed. A flood of clients that
// send nothing then costs neither memory nor file descriptors, and does not keep out a later probe, as a listener
// that refuses the newest would.
func limit(l net.Listener, most int) net.Listener { return &limited{Listener: l, most: most} }

type limited struct {
	net.Listener
	most int

	mu   sync.Mutex // guards open; never held while a connection is used
	open list.List  // of *tracked, oldest first
}

// Accept returns the next connection, and closes the oldest when there are too many.
func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	t := &tracked{Conn: c, listener: l}
	if oldest := l.add(t); oldest != nil {
		_ = oldest.Close()
	}
	return t, nil
}

// add stores a connection, and returns the one that must be closed for it.
func (l *limited) add(t *tracked) (oldest *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.place = l.open.PushBack(t)
	if l.open.Len() > l.most {
		oldest = l.open.Front().Value.(*tracked)
		l.open.Remove(oldest.place)
	}
	return oldest
}

func (l *limited) forget(t *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.Remove(t.place) // does nothing when it is gone already
}

type tracked struct {
	net.Conn
	listener *limited
	place    *list.Element
}

// Close frees the connection's slot.
func (t *tracked) Close() error {
	t.listener.forget(t)
	return t.Conn.Close()
}
