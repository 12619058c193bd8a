package sink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// Offsets claimed by a member that the group does not have (any more) are refused, and with them
// the output. The sink itself stays usable.
func testRevoked(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	k := r.open(20*time.Second, nil)
	mustPut(t, k, []sink.Message{message(out, 0, "static")}, r.claim(in, 1))
	gone := r.claim(in, 2)
	gone.Member, gone.Generation = "gone", 7
	err := put(t, k, []sink.Message{message(out, 0, "revoked")}, gone)
	if !errors.Is(err, sink.ErrRevoked) {
		t.Errorf("claim of an unknown member: %v, want ErrRevoked", err)
	}
	r.want(out, "0:static")
	r.wantOffset(in, 1)
	mustPut(t, k, []sink.Message{message(out, 0, "static again")}, r.claim(in, 2))
	r.want(out, "0:static", "0:static again")
}

// One message that does not fit is named by its index and the topic's limit; the others are not
// written either, and the sink goes on. A raised limit is noticed.
func testTooLarge(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, map[string]string{"max.message.bytes": "20000"})
	k := r.open(20*time.Second, nil)
	big := strings.Repeat("x", 20000)
	err := put(t, k, []sink.Message{message(out, 0, "a"), message(out, 0, big)}, r.claim(in, 1))
	var large *sink.TooLargeError
	if !errors.As(err, &large) {
		t.Fatalf("Put of a large message: %v, want a TooLargeError", err)
	}
	if large.Index != 1 || large.Topic != out || large.Limit != 20000 || large.Size <= 20000 {
		t.Errorf("%+v", large)
	}
	mustPut(t, k, []sink.Message{message(out, 0, "b")}, r.claim(in, 1))
	r.want(out, "0:b")
	r.setLimit(out, "30000")
	mustPut(t, k, []sink.Message{message(out, 0, big)}, r.claim(in, 2))
	if got := r.settled(out); len(got) != 2 {
		t.Errorf("%d records, want 2", len(got))
	}
}

// A message that clients do not read with their default settings is refused, however well it compresses, and whatever its topic takes. What is smaller
// is written, and several messages are no batch that decompresses to more than 16 MiB.
func testReadersLimits(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, map[string]string{"max.message.bytes": "200000000"})
	wire := &Wire{}
	k, err := sink.OpenKafka(t.Context(), sink.KafkaConfig{Cluster: r.cluster(wire), TransactionalID: r.name, Compress: true, BatchBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	of := func(mib int) sink.Message {
		m := message(out, 0, "")
		for range mib {
			m.Rest = append(m.Rest, zeros)
		}
		return m
	}
	err = put(t, k, []sink.Message{message(out, 0, "a"), of(sink.MostMessage >> 20)}, r.claim(in, 1))
	var large *sink.TooLargeError
	if !errors.As(err, &large) || !large.ForReaders || large.Index != 1 || large.Limit != sink.MostMessage || large.Size <= sink.MostMessage {
		t.Fatalf("Put of a message that no default client reads: %v", err)
	}
	r.want(out)
	mustPut(t, k, []sink.Message{of(sink.MostMessage>>20 - 1)}, r.claim(in, 1))
	before := wire.Count(keyProduce)
	mustPut(t, k, slices.Repeat([]sink.Message{of(3)}, 20), r.claim(in, 2))
	if n := wire.Count(keyProduce) - before; n != 4 { // of 5 messages each
		t.Errorf("60 MiB in %d batches, want 4", n)
	}
}

// A Put of several times the batch limit becomes several batches, in order, over several Puts, so
// that sequence numbers continue; a message of more than half the limit has a batch of its own.
func testManyBatches(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, map[string]string{"max.message.bytes": "20000"})
	wire := &Wire{}
	k := r.open(20*time.Second, wire)
	n := 0
	for round := range 3 {
		var msgs []sink.Message
		for i := range 30 {
			msgs = append(msgs, message(out, 0, fmt.Sprintf("%06d%s", n, strings.Repeat("y", 100*(i%4)+3000*(i%2)+9000*(i/29)))))
			n++
		}
		mustPut(t, k, msgs, r.claim(in, int64(round+1)))
	}
	got := r.settled(out)
	if len(got) != n {
		t.Fatalf("%d records, want %d", len(got), n)
	}
	for i, v := range got {
		if want := fmt.Sprintf("0:%06d", i); v[:len(want)] != want {
			t.Fatalf("record %d is %.10s", i, v)
		}
	}
	if produced := wire.Count(keyProduce); produced < 9 {
		t.Errorf("%d produce requests for 3 × 60 kB with batches of 20 kB", produced)
	}
}

// The topic's limit is lowered after the sink has read it: batches are cut smaller on the fly, and
// a message that no longer fits is found by the broker's refusal, inside the transaction.
func testLoweredLimit(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, map[string]string{"max.message.bytes": "40000"})
	k := r.open(20*time.Second, nil)
	mustPut(t, k, []sink.Message{message(out, 0, "first")}, r.claim(in, 1))
	r.setLimit(out, "10000")
	var msgs []sink.Message
	for i := range 10 {
		msgs = append(msgs, message(out, 0, fmt.Sprint(i)+strings.Repeat("z", 3000)))
	}
	mustPut(t, k, msgs, r.claim(in, 2))
	if got := r.settled(out); len(got) != 11 {
		t.Errorf("%d records, want 11", len(got))
	}
	fresh := r.open(20*time.Second, nil)
	r.setLimit(out, "40000")
	mustPut(t, fresh, []sink.Message{message(out, 0, "second")}, r.claim(in, 3))
	r.setLimit(out, "10000")
	err := put(t, fresh, []sink.Message{message(out, 0, "c"), message(out, 0, strings.Repeat("z", 20000))}, r.claim(in, 4))
	var large *sink.TooLargeError
	if !errors.As(err, &large) || large.Index != 1 || large.Limit != 10000 {
		t.Errorf("Put: %v (%+v), want a TooLargeError for message 1", err, large)
	}
	mustPut(t, fresh, []sink.Message{message(out, 0, "d")}, r.claim(in, 4))
	if got := r.settled(out); len(got) != 13 || got[12] != "0:d" {
		t.Errorf("after the refused message: %d records, the last %.20s", len(got), got[len(got)-1])
	}
}

// The caller's context ends inside Put: the transaction is ended all the same, and what was read
// afterwards stays true.
func testContextEnds(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	wire := &Wire{}
	k := r.open(20*time.Second, wire)
	for _, key := range []int16{r.opening(), keyProduce, keyEndTxn} {
		held, release := wire.Hold(key)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- k.Put(ctx, []sink.Message{message(out, 0, "given up")}, r.claim(in, 1)) }()
		await(t, held)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("API key %d: %v, want the context's error", key, err)
		}
		if r.OpenTransaction(t, out) {
			t.Errorf("API key %d: the transaction was left open", key)
		}
		release() // the request arrives after all
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := k.Put(ctx, []sink.Message{message(out, 0, "never")}, r.claim(in, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	mustPut(t, k, []sink.Message{message(out, 0, "kept")}, r.claim(in, 1))
	r.want(out, "0:kept")
	r.wantOffset(in, 1)
}

// A topic that does not exist is an error that names it, not silence; the sink stays usable.
func testUnknownTopic(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	k := r.open(4*time.Second, nil)
	err := put(t, k, []sink.Message{message(r.name+"-nowhere", 0, "a"), message(out, 0, "a")}, r.claim(in, 1))
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("Put to an unknown topic: %v, want an error with its name", err)
	}
	mustPut(t, k, []sink.Message{message(out, 0, "b")}, r.claim(in, 1))
	r.want(out, "0:b")
	if err := put(t, k, []sink.Message{{Topic: "", Value: []byte("x")}}, source.Claim{}); err == nil {
		t.Error("Put without a topic succeeded")
	}
}

// The broker dies and comes back, twice, while transactions follow each other.
func testBrokerRestart(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	k := r.open(60*time.Second, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	stop, progress := make(chan struct{}), make(chan int64)
	var next int64
	var failed error
	go func() {
		defer close(progress)
		for {
			v := fmt.Sprint(next)
			err := k.Put(ctx, []sink.Message{message(out, 0, v+"a"), message(out, 0, v+"b")}, r.claim(in, next+1))
			if err != nil && (errors.Is(err, sink.ErrFenced) || sink.Permanent(err)) {
				failed = err
				return
			}
			if err != nil { // whether it was committed all the same, the offsets tell
				at, lost := r.Committed(ctx, r.name)
				if lost != nil {
					failed = lost
					return
				}
				if at[in+"/0"] == next+1 {
					err = nil
				}
			}
			if err == nil {
				next++
			}
			select {
			case progress <- next:
			case <-stop:
				return
			}
		}
	}()
	most := 2
	if testing.Short() {
		most = 1
	}
	for restarts := 0; ; restarts++ {
		for from := <-progress; ; { // a fault counts only after progress
			if now, alive := <-progress; !alive || now >= from+3 {
				break
			}
		}
		if restarts == most {
			break
		}
		r.Kill()
		r.Restart()
	}
	close(stop)
	for range progress {
	}
	if failed != nil {
		t.Fatalf("Put: %v", failed)
	}
	var want []string
	for i := range next {
		want = append(want, fmt.Sprintf("0:%da", i), fmt.Sprintf("0:%db", i))
	}
	r.want(out, want...)
	r.wantOffset(in, next)
}
