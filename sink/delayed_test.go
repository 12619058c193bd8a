package sink_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// A Produce request that arrives after its transaction has ended, while the next one is open. In version 1
// it can become part of that one, in version 2 it cannot. Three things decide in version 1:
//
//   - The leader remembers the sequence numbers of a producer, so that a second copy is not written,
//     but not forever: producer.id.expiration.ms, a day as a rule, a second here.
//   - The leader asks the coordinator whether the partition is in the transaction of the request's
//     epoch (KIP-890 part 1, Kafka 3.6, switched off here for older ones). The next transaction has the same
//     epoch in version 1, and the same partition, so that a second copy is let through.
//   - After a request without an answer we take a new epoch. That is refused by leaders that ask; to those
//     that do not, the old epoch is good until the first record of the new one.
func TestDelayedProduce(t *testing.T) {
	const unverified = "transaction.partition.verification.enable=false"
	const written, refused = kafka.Error(0), kafka.InvalidProducerEpoch
	brokers := []struct {
		name       string
		kind       kafkatest.Kind
		properties []string
		version    int
		repeated   kafka.Error // the answer to a copy of what was answered
		given      kafka.Error // the answer to what was given up
	}{
		{"3.9.1 as before 3.6", kafkatest.Kafka39, []string{unverified}, 1, written, written},
		{"3.9.1", kafkatest.Kafka39, nil, 1, written, refused},
		{"4.1.0 version 2 unverified", kafkatest.Kafka41, []string{unverified}, 2, refused, refused},
		{"4.1.0 version 1", kafkatest.Kafka41, nil, 1, written, refused},
		{"4.1.0 version 2", kafkatest.Kafka41, nil, 2, refused, refused},
	}
	if testing.Short() {
		brokers = brokers[3:]
	}
	var b *kafkatest.Broker
	for i, c := range brokers {
		if was := brokers[max(i-1, 0)]; i == 0 || was.kind != c.kind || !slices.Equal(was.properties, c.properties) {
			if b != nil {
				b.Kill()
			}
			b = kafkatest.StartWith(t, c.kind, kafkatest.Setup{Properties: append(c.properties,
				"producer.id.expiration.ms=1000", "producer.id.expiration.check.interval.ms=100")})
		}
		t.Run(c.name, func(t *testing.T) {
			t.Run("repeated", func(t *testing.T) {
				r := &rig{Broker: b, t: t, name: fmt.Sprintf("repeated-%d", i), version: c.version}
				r.repeatedLater(c.repeated)
			})
			t.Run("given up", func(t *testing.T) {
				r := &rig{Broker: b, t: t, name: fmt.Sprintf("given-up-%d", i), version: c.version}
				r.givenUp(c.given)
			})
		})
	}
}

// repeatedLater is a network that repeats what was answered, after the leader has forgotten the producer.
func (r *rig) repeatedLater(want kafka.Error) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	wire := &Wire{}
	k := r.open(20*time.Second, wire)
	late := wire.Copy(keyProduce)
	mustPut(r.t, k, []sink.Message{message(out, 0, "first")}, r.claim(in, 1))
	r.want(out, "0:first")
	r.awaitForgotten(out)
	r.deliverInside(k, wire, late, "second", in, out, 2, want)
	if want == 0 { // the fault: a record that was written once is read twice
		r.want(out, "0:first", "0:first", "0:second")
		return
	}
	r.want(out, "0:first", "0:second")
}

// givenUp is a request that reaches the broker only after its transaction was aborted.
func (r *rig) givenUp(want kafka.Error) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	wire := &Wire{}
	k := r.open(20*time.Second, wire)
	late := wire.Steal(keyProduce)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- k.Put(ctx, []sink.Message{message(out, 0, "given up")}, r.claim(in, 1)) }()
	await(r.t, late.Sent)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		r.t.Fatalf("Put: %v, want the context's error", err)
	}
	r.deliverInside(k, wire, late, "again", in, out, 1, want)
	if want == 0 { // the fault: what was aborted is committed by the transaction that replaces it
		r.want(out, "0:given up", "0:again")
		return
	}
	r.want(out, "0:again")
}

// deliverInside delivers a request when the next transaction is open and has written nothing yet.
func (r *rig) deliverInside(k *sink.Kafka, wire *Wire, late *Copied, value, in, out string, next int64, want kafka.Error) {
	r.t.Helper()
	held, release := wire.Hold(keyProduce)
	done := make(chan error, 1)
	go func() {
		done <- k.Put(context.Background(), []sink.Message{message(out, 0, value)}, r.claim(in, next))
	}()
	await(r.t, held)
	got, err := produced(late)
	for deadline := time.Now().Add(30 * time.Second); got == kafka.NotLeaderForPartition && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond) // the partition is new, and its broker has not learnt yet that it leads it
		got, err = produced(late)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if got != want {
		r.t.Errorf("the late request was answered with %d, want %d", got, want)
	}
	release()
	if err := <-done; err != nil {
		r.t.Fatalf("Put: %v", err)
	}
	r.wantOffset(in, next)
}

// produced is what the broker says of the one batch of a Produce request.
func produced(late *Copied) (kafka.Error, error) {
	answer, err := late.Deliver()
	if err != nil {
		return 0, err
	}
	res := kmsg.NewPtrProduceResponse()
	res.Version = int16(binary.BigEndian.Uint16(late.Request()[6:]))
	head := 4 // the correlation id
	if res.IsFlexible() {
		head++ // and no tagged fields
	}
	if err := res.ReadFrom(answer[head:]); err != nil {
		return 0, err
	}
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("an answer about %d topics", len(res.Topics))
	}
	return kafka.Error(res.Topics[0].Partitions[0].ErrorCode), nil
}

// awaitForgotten waits until the leader of a topic's partition knows no producer any more.
func (r *rig) awaitForgotten(topic string) {
	r.t.Helper()
	c := r.cluster(nil)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		req := kmsg.NewPtrDescribeProducersRequest()
		req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
		m, err := c.Ask(ctx, kafkaconn.Question{Request: req, Broker: func(l protocol.Cluster) (protocol.Broker, error) { return kafkaconn.Leader(l, topic, 0) }})
		if err != nil {
			r.t.Fatal(err)
		}
		p := m.(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0]
		if p.ErrorCode == 0 && len(p.ActiveProducers) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
