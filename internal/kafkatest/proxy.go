package kafkatest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a way to one node that can break like a network: see its methods, each of which says what
// happens to the connections there are and to new ones. Heal makes it whole again.
type Proxy struct {
	listen, target string

	mu     sync.Mutex
	l      net.Listener
	conns  map[net.Conn]bool
	still  chan struct{} // not nil: nothing passes until it is closed
	delay  time.Duration // of every chunk
	rate   int           // bytes per second of each direction; 0: no limit
	passed int64         // bytes, both directions
	closed bool
}

func startProxy(t testing.TB, listen, target string) *Proxy {
	t.Helper()
	p := &Proxy{listen: listen, target: target, conns: make(map[net.Conn]bool)}
	if err := p.open(); err != nil {
		t.Fatalf("kafkatest: proxy: %v", err)
	}
	t.Cleanup(p.close)
	return p
}

// Cut refuses new connections and closes those there are: an orderly end (FIN) after what was sent.
func (p *Proxy) Cut() { p.drop(true, false) }

// Reset breaks the connections there are with RST, and takes new ones.
func (p *Proxy) Reset() { p.drop(false, true) }

// BlackHole lets nothing pass, in either direction, without a word: connections stay, new ones open.
// What was sent meanwhile arrives after Heal, if the connection still lives.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.still == nil {
		p.still = make(chan struct{})
	}
}

// Delay holds up everything by d in each direction.
func (p *Proxy) Delay(d time.Duration) { p.set(d, 0) }

// Slow lets that many bytes per second pass, in each direction of each connection.
func (p *Proxy) Slow(rate int) { p.set(0, rate) }

// Heal undoes all of it.
func (p *Proxy) Heal() error {
	p.set(0, 0)
	p.mu.Lock()
	if p.still != nil {
		close(p.still)
		p.still = nil
	}
	p.mu.Unlock()
	return p.open()
}

// Passed is how many bytes went through.
func (p *Proxy) Passed() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed
}

func (p *Proxy) set(delay time.Duration, rate int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.rate = delay, rate
}

func (p *Proxy) open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l != nil || p.closed {
		return nil
	}
	l, err := net.Listen("tcp", p.listen)
	if err != nil {
		return err
	}
	p.l = l
	go p.accept(l)
	return nil
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.Heal()
	p.drop(true, true)
}

func (p *Proxy) drop(refuse, reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if refuse && p.l != nil {
		_ = p.l.Close()
		p.l = nil
	}
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go p.serve(client)
	}
}

func (p *Proxy) serve(client net.Conn) {
	node, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil { // the node is down
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[node] = true, true
	p.mu.Unlock()
	done := make(chan struct{})
	go func() { p.pass(node, client); close(done) }()
	p.pass(client, node)
	<-done
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, node)
	p.mu.Unlock()
}

// pass copies one direction until it ends, and then ends both.
func (p *Proxy) pass(to, from net.Conn) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.wait(n)
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait is as long as the faults of the moment hold n bytes up.
func (p *Proxy) wait(n int) {
	p.mu.Lock()
	still, delay := p.still, p.delay
	if p.rate > 0 {
		delay += time.Duration(n) * time.Second / time.Duration(p.rate)
	}
	p.passed += int64(n)
	p.mu.Unlock()
	if still != nil {
		<-still
	}
	time.Sleep(delay)
}
