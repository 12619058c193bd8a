package sink_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// narrow is a way to the brokers for a number of bytes per second, which all connections share.
type narrow struct {
	mu   sync.Mutex
	free time.Time
	rate float64
}

func (n *narrow) wait(ctx context.Context, bytes int) {
	n.mu.Lock()
	if now := time.Now(); n.free.Before(now) {
		n.free = now
	}
	n.free = n.free.Add(time.Duration(float64(bytes) / n.rate * float64(time.Second)))
	until := n.free
	n.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(until)):
	}
}

func (n *narrow) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	gone, cancel := context.WithCancel(context.Background())
	return &narrowConn{Conn: c, way: n, gone: gone, cancel: cancel}, nil
}

type narrowConn struct {
	net.Conn
	way    *narrow
	gone   context.Context
	cancel func()
}

// Write passes small pieces, so that connections share the way.
func (c *narrowConn) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		piece := b[:min(len(b), 4<<10)]
		c.way.wait(c.gone, len(piece))
		m, err := c.Conn.Write(piece)
		n += m
		if err != nil {
			return n, err
		}
		b = b[m:]
	}
	return n, nil
}

func (c *narrowConn) Close() error {
	c.cancel()
	return c.Conn.Close()
}

// Sixteen partitions that catch up have five times as many bytes as the link carries in a transaction's time. They take
// turns, and cut what they put, until all of it is there: without that each is aborted, forever.
func TestSlowLink(t *testing.T) {
	const partitions, each, size, rate, timeout = 16, 16, 16 << 10, 1 << 20, 2 * time.Second
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		b.CreateTopic(t, "slow-out", partitions, nil)
		b.CreateTopic(t, "slow-in", partitions, nil)
		way := &narrow{rate: rate}
		cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs(), ClientID: "slow", Dial: way.dial})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		link := sink.NewLink(16 << 20)
		var wg sync.WaitGroup
		for id := range int32(partitions) {
			wg.Go(func() {
				k, err := sink.OpenKafka(ctx, sink.KafkaConfig{Cluster: cl, TransactionalID: fmt.Sprintf("slow-%d", id), Timeout: timeout, Link: link})
				if err != nil {
					t.Error(err)
					return
				}
				in := source.Partition{Topic: "slow-in", ID: id}
				for done := int64(0); done < each && ctx.Err() == nil; {
					next := done + part(k.Most(), size, each-done)
					claim := source.Claim{Group: fmt.Sprintf("slow-%d", id), Generation: -1, Next: source.Offsets{in: next}}
					if k.Put(ctx, messagesOf(id, size, next-done), claim) != nil { // all of it or nothing
						committed, err := b.Committed(ctx, claim.Group)
						if err != nil {
							t.Error(err)
						}
						next = max(done, committed[in.String()])
					}
					done = next
				}
			})
		}
		wg.Wait()
		if got := len(b.ReadCommitted(t, "slow-out")); got != partitions*each {
			t.Errorf("%d of %d messages are there", got, partitions*each)
		}
	})
}

// part is how many messages of a size fit, at least one.
func part(most int, size, left int64) int64 {
	if most == 0 {
		return left
	}
	return min(max(int64(most)/size, 1), left)
}

func messagesOf(partition int32, size, n int64) (msgs []sink.Message) {
	for range n {
		msgs = append(msgs, sink.Message{Topic: "slow-out", Partition: partition, Value: make([]byte, size)})
	}
	return msgs
}
