package sink_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// blocked lets no large write pass: it takes until the deadline is past, and goes on until Put has returned, or for a second.
type blocked struct {
	net.Conn
	inUse *atomic.Int32 // writes that read the caller's memory
	began func()
	past  chan struct{}
	gone  <-chan struct{} // closed when Put has returned
}

func (b *blocked) Write(p []byte) (int, error) {
	if len(p) < 16<<10 {
		return b.Conn.Write(p)
	}
	b.inUse.Add(1)
	defer b.inUse.Add(-1)
	b.began()
	<-b.past
	select {
	case <-b.gone:
	case <-time.After(time.Second): // Put waits for it
	}
	return 0, os.ErrDeadlineExceeded
}

func (b *blocked) SetWriteDeadline(t time.Time) error {
	if t.Before(time.Now()) {
		select {
		case b.past <- struct{}{}:
		default:
		}
	}
	return b.Conn.SetWriteDeadline(t)
}

// When Put returns, no connection reads the messages any more, although the request was given up while it was being
// written: their memory is the caller's.
func TestGivenUpMessagesAreNotRead(t *testing.T) {
	broker := kafkatest.Start(t, kafkatest.Embedded)
	broker.CreateTopic(t, "out", 1, map[string]string{"max.message.bytes": "1000000"})
	var inUse atomic.Int32
	gone := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &blocked{Conn: c, inUse: &inUse, began: cancel, past: make(chan struct{}, 1), gone: gone}, err
	}
	cluster, err := kafkaconn.Open(kafkaconn.Config{Brokers: broker.Addrs(), Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	k, err := sink.OpenKafka(t.Context(), sink.KafkaConfig{Cluster: cluster, TransactionalID: "id"})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	err = k.Put(ctx, []sink.Message{{Topic: "out", Value: bytes.Repeat([]byte("v"), 500_000)}}, source.Claim{})
	n := inUse.Load()
	close(gone)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v, want that it was given up", err)
	}
	if n != 0 {
		t.Errorf("%d connections still read the messages", n)
	}
}
