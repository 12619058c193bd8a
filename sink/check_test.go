package sink_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
)

// An owner that writes nothing hears that another one has its work, whether that one has written or not, by asking.
// Asking takes no epoch and costs nothing else: what it writes next is as ever.
func testIdleOwnerAsks(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	mine := func(k *sink.Kafka) {
		t.Helper()
		id, epoch := sink.Producer(k)
		for range 3 {
			if err := k.Check(t.Context()); err != nil {
				t.Fatalf("the owner asks: %v", err)
			}
		}
		if nowID, now := sink.Producer(k); nowID != id || now != epoch {
			t.Errorf("asking changed producer and epoch from %d, %d to %d, %d", id, epoch, nowID, now)
		}
	}
	lost := func(k *sink.Kafka, who string) {
		t.Helper()
		for range 2 {
			if err := k.Check(t.Context()); !errors.Is(err, sink.ErrFenced) {
				t.Errorf("%s: %v, want ErrFenced", who, err)
			}
		}
	}
	first := r.open(20*time.Second, nil)
	mine(first)
	mustPut(t, first, []sink.Message{message(out, 0, "first")}, r.claim(in, 1))
	mine(first)
	second := r.open(20*time.Second, nil)
	lost(first, "another owner has written nothing yet")
	mine(second)
	third := r.open(20*time.Second, nil)
	mustPut(t, third, []sink.Message{message(out, 0, "third")}, r.claim(in, 2))
	lost(second, "another owner has written")
	mine(third)
	if err := put(t, second, []sink.Message{message(out, 0, "second")}, r.claim(in, 3)); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("once fenced: %v, want ErrFenced", err)
	}
	mustPut(t, third, []sink.Message{message(out, 0, "third, later")}, r.claim(in, 3))
	r.want(out, "0:first", "0:third", "0:third, later")
	r.wantOffset(in, 3)
}

// Brokers before Kafka 3.0 cannot describe a transaction. Ones that cannot answer now, or have forgotten the id, are no
// reason to stop.
func TestCheckWithoutAnAnswer(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	for i, c := range []struct {
		code   kafka.Error
		fenced bool // another owner is noticed all the same
		fails  bool
	}{
		{kafka.UnsupportedVersion, true, false},
		{kafka.TransactionalIDNotFound, false, false},
		{kafka.GroupLoadInProgress, false, true},
		{kafka.NotCoordinatorForGroup, false, true},
		{kafka.TransactionalIDAuthorizationFailed, false, true},
	} {
		t.Run(c.code.Title(), func(t *testing.T) {
			r := &rig{Broker: b, t: t, name: fmt.Sprintf("unanswered%d", i), version: 1}
			in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
			k := r.open(20*time.Second, nil)
			mustPut(t, k, []sink.Message{message(out, 0, "0")}, r.claim(in, 1))
			answer := func() {
				b.Embedded().Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeTransactions}, Err: kerr.TypedErrorForCode(int16(c.code)), Count: 1})
			}
			answer()
			if err := k.Check(t.Context()); (err != nil) != c.fails || errors.Is(err, sink.ErrFenced) {
				t.Errorf("the owner asks: %v", err)
			}
			mustPut(t, k, []sink.Message{message(out, 0, "1")}, r.claim(in, 2))
			r.open(20*time.Second, nil)
			answer()
			if err := k.Check(t.Context()); errors.Is(err, sink.ErrFenced) != c.fenced {
				t.Errorf("the former owner asks: %v", err)
			}
			if err := k.Check(t.Context()); !errors.Is(err, sink.ErrFenced) {
				t.Errorf("the former owner asks again: %v, want ErrFenced", err)
			}
		})
	}
}

// The producer id that follows an exhausted epoch is known by its owner before the coordinator names it.
func TestCheckWhereEpochsRunOut(t *testing.T) {
	b := kafkatest.StartWith(t, kafkatest.Embedded, kafkatest.Setup{Transactions2: true})
	r := &rig{Broker: b, t: t, name: "spent", version: 2}
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	k := r.open(20*time.Second, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := sink.SpendEpochs(ctx, k, 32765); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		mustPut(t, k, []sink.Message{message(out, 0, fmt.Sprint(i))}, r.claim(in, int64(i+1)))
		if err := k.Check(ctx); err != nil {
			t.Fatalf("after transaction %d: %v", i, err)
		}
	}
	r.want(out, "0:0", "0:1", "0:2", "0:3", "0:4")
}
