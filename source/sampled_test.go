package source_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// testSampled: of a range that is read in stretches the same records come whatever the sizes of responses, also after Seek, and the
// brokers send little else. Aborted transactions stay hidden when the reader has leapt over their beginning.
func testSampled(t *testing.T, b *kafkatest.Broker) {
	const oneIn, messages = 10, 20_000
	b.CreateTopic(t, "sampled", 1, nil)
	plain := producer(t, b.Addrs(), kgo.ProducerBatchMaxBytes(16<<10))
	txn := producer(t, b.Addrs(), kgo.TransactionalID("sampled"))
	value := strings.Repeat("x", 2000)
	for i := 0; i < messages; i += 200 {
		recs := make([]*kgo.Record, 200)
		for j := range recs {
			recs[j] = record("sampled", 0, fmt.Sprint(i+j), value)
		}
		if i%2000 == 1000 {
			writeTxn(t, txn, kgo.TryAbort, recs...)
		} else {
			write(t, plain, recs...)
		}
	}
	p := source.Partition{Topic: "sampled", ID: 0}
	read := func(k source.KafkaConfig) (order []string, bytes int64) {
		t.Helper()
		var received atomic.Int64
		c, err := kafkaconn.Open(kafkaconn.Config{Brokers: b.Addrs(), ClientID: "source-test", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return &countedConn{conn, &received}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		k.Cluster, k.Start, k.End = c, source.Offsets{p: 3}, source.Offsets{p: messages}
		s, err := source.OpenKafka(within(t), k)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, order, claim := readAll(t, s)
		if claim.Next[p] != messages {
			t.Errorf("the last claim is %v", claim.Next)
		}
		bytes = received.Load()
		if err := s.Seek(within(t), source.Offsets{p: 3}); err != nil {
			t.Fatal(err)
		}
		if _, again, _ := readAll(t, s); !cmp.Equal(order, again) {
			t.Errorf("after Seek %d records, before %d", len(again), len(order))
		}
		return order, bytes
	}
	whole, all := read(source.KafkaConfig{})
	sampled, bytes := read(source.KafkaConfig{OneIn: oneIn})
	for _, offset := range sampled {
		if !slices.Contains(whole, offset) && b.Kind != kafkatest.Embedded { // which shows aborted records now and then, to franz-go's reader too
			t.Errorf("%s is not there for who reads everything", offset)
		}
	}
	if few, most := len(whole)*9/oneIn/10, len(whole)*11/oneIn/10; len(sampled) < few || len(sampled) > most {
		t.Errorf("%d records of %d", len(sampled), len(whole))
	}
	if bytes > all/4 {
		t.Errorf("%d bytes for one record in %d, %d for all", bytes, oneIn, all)
	}
	for _, k := range []source.KafkaConfig{{GatherBytes: 1}, {GatherBytes: 100 << 10}, {Memory: source.NewMemory(1, 1)}, {GatherBytes: 16 << 20, Memory: source.NewMemory(1<<30, 1)}} {
		k.OneIn = oneIn
		if got, _ := read(k); !cmp.Equal(got, sampled) {
			t.Errorf("batches of %d bytes: %d records, want %d", k.GatherBytes, len(got), len(sampled))
		}
	}
	t.Logf("%d bytes for %d records, %d for all %d", bytes, len(sampled), all, len(whole))
}

type countedConn struct {
	net.Conn
	received *atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}
