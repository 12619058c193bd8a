package sink_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
)

// An upgrade rolls: the work has another transactional id now, and its owner of the former release is fenced,
// and what it left open is ended, before the new one begins.
func TestFormerIDIsFenced(t *testing.T) {
	for _, kind := range []kafkatest.Kind{kafkatest.Embedded, kafkatest.Kafka41} {
		t.Run(string(kind), func(t *testing.T) {
			r := &rig{Broker: kafkatest.Shared(t, kind), t: t, name: "former", version: 1}
			out := r.topic("out", 1, nil)
			old := r.open(time.Minute, nil)
			mustPut(t, old, []sink.Message{message(out, 0, "old")}, r.claim(out, 1))
			c, ctx := r.cluster(nil), context.Background()
			owner := func(former ...string) *sink.Kafka {
				k, err := sink.OpenKafka(ctx, sink.KafkaConfig{Cluster: c, TransactionalID: "former/now", Former: former})
				if err != nil {
					t.Fatal(err)
				}
				return k
			}
			_ = owner(r.name)
			if err := put(t, old, []sink.Message{message(out, 0, "old again")}, r.claim(out, 2)); !errors.Is(err, sink.ErrFenced) {
				t.Errorf("an owner of the former release ends with %v, want ErrFenced", err)
			}
			const times = 20
			took := func(former ...string) time.Duration {
				began := time.Now()
				for range times {
					_ = owner(former...)
				}
				return time.Since(began) / times
			}
			t.Logf("a take-over takes %v, with the former id %v", took(), took(r.name))
			now := owner(r.name)
			mustPut(t, now, []sink.Message{message(out, 0, "now")}, r.claim(out, 2))
			if got := r.values(out); len(got) != 2 {
				t.Errorf("the topic has %v", got)
			}
		})
	}
}
