package sink_test

import (
	"fmt"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// A new owner reads the offset that the former one has committed, however late the coordinator shows
// it. Kafka 3.8.0 does so in a thread that also looks for expired offsets (KAFKA-17507): with many groups,
// and often, it shows an old offset for hundreds of milliseconds after the fence.
func TestOffsetsAreFinalAfterTheFence(t *testing.T) {
	r, groups, takeOvers := &rig{t: t, name: "stale"}, 10_000, 100
	if testing.Short() { // with a broker that does not have the fault
		r.Broker, groups, takeOvers = kafkatest.Shared(t, kafkatest.Kafka41), 100, 20
	} else {
		r.Broker = kafkatest.StartWith(t, kafkatest.Kafka38, kafkatest.Setup{Properties: kafkatest.Crowded, HeapMiB: 400})
	}
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	r.Crowd(t, in, groups)
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
