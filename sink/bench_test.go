package sink_test

import (
	"context"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/cluster"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// One transaction with one small message: the price of exactly once. And 4 MB in messages of 10 kB.
func BenchmarkPut(b *testing.B) {
	for _, kind := range kafkatest.Kinds() {
		b.Run(string(kind), func(b *testing.B) {
			broker := kafkatest.Start(b, kind)
			for _, c := range []struct {
				name         string
				messages, of int
			}{{"1x100B", 1, 100}, {"400x10kB", 400, 10_000}} {
				b.Run(c.name, func(b *testing.B) { benchmarkPut(b, broker, c.name, c.messages, c.of) })
			}
		})
	}
}

func benchmarkPut(b *testing.B, broker *kafkatest.Broker, name string, messages, of int) {
	in, out := "in-"+name, "out-"+name
	broker.CreateTopic(b, in, 1, nil)
	broker.CreateTopic(b, out, 1, map[string]string{"max.message.bytes": "4194304", "retention.bytes": "100000000"})
	cl, err := cluster.Open(cluster.Config{Brokers: broker.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: cl, TransactionalID: name})
	if err != nil {
		b.Fatal(err)
	}
	var msgs []sink.Message
	for range messages {
		msgs = append(msgs, sink.Message{Topic: out, Value: make([]byte, of)})
	}
	claim := source.Claim{Group: name, Generation: -1, Next: source.Offsets{{Topic: in}: 0}}
	b.SetBytes(int64(messages * of))
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
