package sink_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// A new owner reads the offset that the former one has committed, however late the coordinator shows
// it. Kafka 3.8.0 does so in a thread that also looks for expired offsets (KAFKA-17507): with many groups,
// and often, it shows an old offset for hundreds of milliseconds after the fence.
func TestOffsetsAreFinalAfterTheFence(t *testing.T) {
	const groups, takeOvers = 20_000, 400
	b := kafkatest.StartWith(t, kafkatest.Kafka38, kafkatest.Setup{Properties: []string{"offsets.retention.check.interval.ms=200"}, HeapMiB: 400})
	r := &rig{Broker: b, t: t, name: "stale"}
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	crowd(t, b, in, groups)
	c, p := r.cluster(nil), source.Partition{Topic: in}
	old, first := 0, ""
	for next := range int64(takeOvers) {
		k, err := sink.OpenKafka(t.Context(), sink.KafkaConfig{Cluster: c, TransactionalID: r.name})
		if err != nil {
			t.Fatal(err)
		}
		got, err := source.Committed(t.Context(), c, r.name, []source.Partition{p})
		if err != nil {
			t.Fatal(err)
		}
		if next > 0 && got[p].Next != next {
			old++
			first = fmt.Sprintf("%d where %d is committed", got[p].Next, next)
		}
		mustPut(t, k, []sink.Message{message(out, 0, "x")}, r.claim(in, next+1))
	}
	if old > 0 {
		t.Errorf("%d of %d owners read an old offset, such as %s", old, takeOvers, first)
	}
}

// crowd makes groups that give the coordinator's thread something to do.
func crowd(t *testing.T, b *kafkatest.Broker, topic string, groups int) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const workers = 32
	var wait sync.WaitGroup
	began := time.Now()
	for w := range workers {
		wait.Go(func() {
			for i := w; i < groups; i += workers {
				partition := kmsg.NewOffsetCommitRequestTopicPartition()
				partition.Offset = 1
				of := kmsg.NewOffsetCommitRequestTopic()
				of.Topic, of.Partitions = topic, append(of.Partitions, partition)
				request := kmsg.NewPtrOffsetCommitRequest()
				request.Group, request.Generation, request.Topics = fmt.Sprintf("other-%d", i), -1, append(request.Topics, of)
				if _, err := request.RequestWith(t.Context(), c); err != nil {
					t.Errorf("group %d: %v", i, err)
					return
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d groups after %v", groups, time.Since(began).Round(time.Millisecond))
}
