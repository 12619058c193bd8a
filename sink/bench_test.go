package sink_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// One transaction with one small message: the price of exactly once. The same in eight partitions. And 4 MB in
// messages of 10 kB. In each version of transactions that the broker has.
func BenchmarkPut(b *testing.B) {
	for _, kind := range kafkatest.Kinds() {
		b.Run(string(kind), func(b *testing.B) {
			broker := kafkatest.Start(b, kind)
			for version := 1; version <= newest(kind); version++ {
				for _, c := range []shape{{"1x100B", 1, 100, 1}, {"8x100B,8partitions", 8, 100, 8}, {"400x10kB", 400, 10_000, 1}} {
					c.name = fmt.Sprintf("v%d/%s", version, c.name)
					b.Run(c.name, func(b *testing.B) { benchmarkPut(b, broker, version, c) })
				}
			}
		})
	}
}

// shape is what each Put of a benchmark writes.
type shape struct {
	name                     string
	messages, of, partitions int
}

func benchmarkPut(b *testing.B, broker *kafkatest.Broker, version int, c shape) {
	name := strings.NewReplacer("/", "-", ",", "-").Replace(c.name)
	in, out := "in-"+name, "out-"+name
	broker.CreateTopic(b, in, 1, nil)
	broker.CreateTopic(b, out, c.partitions, map[string]string{"max.message.bytes": "4194304", "retention.bytes": "100000000"})
	cl, err := kafkaconn.Open(kafkaconn.Config{Brokers: broker.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: cl, TransactionalID: name})
	if err != nil {
		b.Fatal(err)
	}
	if version == 1 {
		sink.StayAtVersion1(k)
	}
	var msgs []sink.Message
	for i := range c.messages {
		msgs = append(msgs, sink.Message{Topic: out, Partition: int32(i % c.partitions), Value: make([]byte, c.of)})
	}
	claim := source.Claim{Group: name, Generation: -1, Next: source.Offsets{{Topic: in}: 0}}
	b.SetBytes(int64(c.messages * c.of))
	began, n := time.Now(), 0
	for b.Loop() {
		claim.Next[source.Partition{Topic: in}]++
		if err := k.Put(context.Background(), msgs, claim); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/float64(n)/1000, "ms/txn")
}
