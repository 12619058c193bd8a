package source_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
)

// BenchmarkRead reads four partitions of 10 kB messages, undecoded, from the embedded broker,
// which shares the processor.
func BenchmarkRead(b *testing.B) {
	broker := kafkatest.Start(b, kafkatest.Embedded)
	broker.CreateTopic(b, "bench", 4, nil)
	p := producer(b, broker.Addrs())
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 10_000)
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	const messages = 6000
	start, end := make(source.Offsets), make(source.Offsets)
	for id := range int32(4) {
		var recs []*kgo.Record
		for range messages / 4 {
			recs = append(recs, &kgo.Record{Topic: "bench", Partition: id, Value: value})
		}
		write(b, p, recs...)
		start[source.Partition{Topic: "bench", ID: id}], end[source.Partition{Topic: "bench", ID: id}] = 0, messages/4
	}
	for name, config := range map[string]source.KafkaConfig{"live": {Start: start}, "bounded": {Start: start, End: end}} {
		b.Run(name, func(b *testing.B) {
			config.Cluster, config.GatherWait = open(b, broker.Addrs()...), time.Millisecond
			b.SetBytes(messages * int64(len(value)))
			for b.Loop() {
				k, err := source.OpenKafka(within(b), config)
				if err != nil {
					b.Fatal(err)
				}
				for n := 0; n < messages; {
					batch, err := k.Read(within(b))
					if err != nil {
						b.Fatal(err)
					}
					n += len(batch.Messages)
				}
				if err := k.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
