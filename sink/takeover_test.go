package sink_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
)

// An upgrade and the way back: owners of both versions take the work over from each other, idle or inside a
// transaction. Each former owner is fenced, and nothing of what it had open is seen.
func TestTakeOverBetweenVersions(t *testing.T) {
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for _, c := range []struct{ from, to int }{{1, 2}, {2, 1}, {2, 2}} {
		t.Run(fmt.Sprintf("from %d to %d", c.from, c.to), func(t *testing.T) {
			r := &rig{Broker: b, t: t, name: fmt.Sprintf("from%dto%d", c.from, c.to), version: c.from}
			in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
			wire := &Wire{}
			old := r.open(20*time.Second, wire)
			mustPut(t, old, []sink.Message{message(out, 0, "old")}, r.claim(in, 1))
			held, release := wire.Hold(keyEndTxn)
			done := make(chan error, 1)
			go func() {
				done <- old.Put(context.Background(), []sink.Message{message(out, 0, "old, open")}, r.claim(in, 2))
			}()
			await(t, held)
			r.version = c.to
			young := r.open(20*time.Second, nil)
			mustPut(t, young, []sink.Message{message(out, 0, "young")}, r.claim(in, 2))
			release()
			if err := <-done; !errors.Is(err, sink.ErrFenced) {
				t.Errorf("the former owner's open transaction: %v, want ErrFenced", err)
			}
			r.version = c.from
			back := r.open(20*time.Second, nil)
			if err := put(t, young, []sink.Message{message(out, 0, "young, late")}, r.claim(in, 3)); !errors.Is(err, sink.ErrFenced) {
				t.Errorf("the idle former owner: %v, want ErrFenced", err)
			}
			mustPut(t, back, []sink.Message{message(out, 0, "back")}, r.claim(in, 3))
			r.want(out, "0:old", "0:young", "0:back")
			r.wantOffset(in, 3)
		})
	}
}

// The cluster finalizes version 2 while a producer is at work, or the producer must go back: the version changes
// between two transactions. Version 2 begins with a new epoch.
func TestVersionChangesBetweenTransactions(t *testing.T) {
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	r := &rig{Broker: b, t: t, name: "changes", version: 2}
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	wire := &Wire{}
	k := r.open(20*time.Second, wire)
	began := wire.Count(keyInitProducer)
	var want []string
	for i, version := range []int{2, 1, 1, 2, 2, 1, 2, 2} {
		if version == 1 {
			sink.StayAtVersion1(k)
		} else {
			sink.ReturnToVersion2(k)
		}
		v := fmt.Sprint(i)
		mustPut(t, k, []sink.Message{message(out, 0, v)}, r.claim(in, int64(i+1)))
		if got := sink.Version(k); got != version {
			t.Fatalf("transaction %d was of version %d, want %d", i, got, version)
		}
		want = append(want, "0:"+v)
	}
	r.want(out, want...)
	if n := wire.Count(keyInitProducer) - began; n < 2 {
		t.Errorf("InitProducerId was sent %d times after the start, want once before each change to version 2", n)
	}
}

// The coordinator finalizes version 2 under a producer that has begun with version 1: it follows once its
// connection is a new one.
func TestVersionIsFinalizedLater(t *testing.T) {
	for _, kind := range []kafkatest.Kind{kafkatest.Embedded, kafkatest.Kafka41} {
		t.Run(string(kind), func(t *testing.T) {
			b := kafkatest.StartWith(t, kind, kafkatest.Setup{Transactions2: kind == kafkatest.Embedded}) // not shared: a test that fails leaves it at version 1
			r := &rig{Broker: b, t: t, name: "later", version: 1}
			in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
			b.FinalizeTransactions(t, 1)
			wire := &Wire{}
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			k, err := sink.OpenKafka(ctx, sink.KafkaConfig{Cluster: r.cluster(wire), TransactionalID: r.name})
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			const last = 1 // for the first answer of the new connection comes at its end
			for i := range 4 {
				if i == 2 {
					b.FinalizeTransactions(t, 2)
					wire.Break()
				}
				err := put(t, k, []sink.Message{message(out, 0, fmt.Sprint(i))}, r.claim(in, int64(i+1)))
				if err != nil && r.GroupOffsets(t, r.name)[in+"/0"] != int64(i+1) {
					t.Fatalf("Put: %v", err)
				}
				got = append(got, sink.Version(k))
			}
			if diff := cmp.Diff([]int{1, 1, last, 2}, got); diff != "" {
				t.Errorf("versions of the transactions (-want +got):\n%s", diff)
			}
			r.want(out, "0:0", "0:1", "0:2", "0:3")
		})
	}
}

// The last epoch of a producer id is followed by the first of another id, between transactions and after a failure.
func TestEpochsRunOut(t *testing.T) {
	b := kafkatest.StartWith(t, kafkatest.Embedded, kafkatest.Setup{Transactions2: true})
	r := &rig{Broker: b, t: t, name: "epochs", version: 2}
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	k := r.open(20*time.Second, nil)
	id, _ := sink.Producer(k)
	if err := sink.SpendEpochs(context.Background(), k, 32767-3); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 6 {
		v := fmt.Sprint(i)
		mustPut(t, k, []sink.Message{message(out, 0, v)}, r.claim(in, int64(i+1)))
		want = append(want, "0:"+v)
	}
	r.want(out, want...)
	if now, epoch := sink.Producer(k); now == id || epoch > 6 {
		t.Errorf("producer %d, epoch %d after those of %d ran out", now, epoch, id)
	}
}
