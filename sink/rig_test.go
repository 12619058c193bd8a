package sink_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// rig is a broker with names of this case's own.
type rig struct {
	*kafkatest.Broker
	t       *testing.T
	name    string
	version int  // of transactions
	reads   bool // the process could read
}

func (r *rig) topic(suffix string, partitions int, configs map[string]string) string {
	r.t.Helper()
	name := r.name + "-" + suffix
	r.CreateTopic(r.t, name, partitions, configs)
	return name
}

func (r *rig) cluster(wire *Wire) *kafkaconn.Cluster {
	r.t.Helper()
	c := kafkaconn.Config{Brokers: r.Addrs(), ClientID: "sink-test"}
	if wire != nil {
		c.Dial = wire.Dial
	}
	cl, err := kafkaconn.Open(c)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cl.Close)
	return cl
}

// open takes the case's transactional id over, through a wire of its own if one is given.
func (r *rig) open(timeout time.Duration, wire *Wire) *sink.Kafka {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c := r.cluster(wire)
	if r.reads {
		c.Allow()
	}
	k, err := sink.OpenKafka(ctx, sink.KafkaConfig{Cluster: c, TransactionalID: r.name, Timeout: timeout})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = k.Close() })
	if r.version < 2 {
		sink.StayAtVersion1(k)
	}
	if got := sink.Version(k); got != max(r.version, 1) {
		r.t.Fatalf("transactions of version %d, want %d", got, r.version)
	}
	return k
}

func (r *rig) claim(topic string, next int64) source.Claim {
	return source.Claim{Group: r.name, Generation: -1, Next: source.Offsets{{Topic: topic, ID: 0}: next}}
}

func put(t *testing.T, k *sink.Kafka, msgs []sink.Message, c source.Claim) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	return k.Put(ctx, msgs, c)
}

func mustPut(t *testing.T, k *sink.Kafka, msgs []sink.Message, c source.Claim) {
	t.Helper()
	if err := put(t, k, msgs, c); err != nil {
		t.Fatalf("Put: %v", err)
	}
}

// values are what a read_committed reader of a topic sees, as "partition:value".
func (r *rig) values(topic string) (vs []string) {
	r.t.Helper()
	for _, rec := range r.ReadCommitted(r.t, topic) {
		v := string(rec.Value)
		if rec.Value == nil {
			v = "∅"
		}
		vs = append(vs, fmt.Sprintf("%d:%s", rec.Partition, v))
	}
	return vs
}

// settled is values once no transaction is open: a broker answers EndTxn before it has written the
// markers that readers wait for.
func (r *rig) settled(topic string) []string {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); r.OpenTransaction(r.t, topic); {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: a transaction was left open", topic)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return r.values(topic)
}

func (r *rig) want(topic string, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.settled(topic)); diff != "" {
		r.t.Errorf("%s, read committed (-want +got):\n%s", topic, diff)
	}
}

func (r *rig) wantOffset(topic string, want int64) {
	r.t.Helper()
	if got, ok := r.GroupOffsets(r.t, r.name)[topic+"/0"]; got != want || !ok && want != 0 {
		r.t.Errorf("group %s has committed %d of %s, want %d", r.name, got, topic, want)
	}
}

func message(topic string, partition int32, value string) sink.Message {
	return sink.Message{Topic: topic, Partition: partition, Key: []byte("k"), Value: []byte(value)}
}

func (r *rig) setLimit(topic, bytes string) {
	r.t.Helper()
	r.AlterTopic(r.t, topic, map[string]string{"max.message.bytes": bytes})
}

// await waits for a request to reach the wire's hold; a Put that failed before never gets there.
func await(t *testing.T, held <-chan struct{}) {
	t.Helper()
	select {
	case <-held:
	case <-time.After(30 * time.Second):
		t.Fatal("the request that the test waits for was not sent")
	}
}

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }
