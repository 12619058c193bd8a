package sink_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// API keys, as the wire knows them.
const (
	keyProduce         = 0
	keyFindCoordinator = 10
	keyInitProducer    = 22
	keyAddPartitions   = 24
	keyAddOffsets      = 25
	keyEndTxn          = 26
	keyTxnOffsetCommit = 28
)

// TestKafka runs every promise of Put on every broker, in every version of transactions that it has. One broker serves all cases of its kind.
func TestKafka(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("github.com/lca-stream/lca-stream/internal/kafkatest.StartProcess.func1")) // the shared brokers
	cases := []struct {
		name string
		run  func(*testing.T, *rig)
	}{
		{"everything in one transaction", testEverythingAtOnce},
		{"round trips", testRoundTrips},
		{"cut at every request", testCutAtEveryRequest},
		{"the old owner is fenced", testOldOwnerIsFenced},
		{"an idle owner asks", testIdleOwnerAsks},
		{"a zombie does not disturb the new owner", testZombieDoesNotDisturb},
		{"a late commit commits nothing", testLateCommit},
		{"a late request opens nothing", testLateRequest},
		{"left open for longer than its timeout", testTimeout},
		{"the group has moved on", testRevoked},
		{"too large", testTooLarge},
		{"too large for readers", testReadersLimits},
		{"compression", testCompression},
		{"times", testTimes},
		{"many batches", testManyBatches},
		{"offsets", testOffsets},
		{"a limit that was lowered", testLoweredLimit},
		{"context ends inside", testContextEnds},
		{"unknown topic", testUnknownTopic},
		{"broker killed and restarted", testBrokerRestart}, // last: it disturbs the others' broker
	}
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		for version := 1; version <= newest(b.Kind); version++ {
			for i, c := range cases {
				if testing.Short() && version < newest(b.Kind) && i == len(cases)-1 { // the broker restarts for the newest version
					continue
				}
				t.Run(fmt.Sprintf("v%d/%s", version, strings.ReplaceAll(c.name, " ", "_")), func(t *testing.T) {
					c.run(t, &rig{Broker: b, t: t, name: fmt.Sprintf("v%d-case%d", version, i), version: version})
				})
			}
		}
	})
}

// newest is the newest version of transactions that a kind of broker offers.
func newest(kind kafkatest.Kind) int {
	if kind == kafkatest.Kafka41 {
		return 2
	}
	return 1
}

// The learner's commit: output, snapshot chunks with a tombstone, checkpoint and input offsets of
// two partitions, over four topics, in one transaction; order, headers and times arrive as given.
func testEverythingAtOnce(t *testing.T, r *rig) {
	in := r.topic("in", 2, nil)
	out := r.topic("out", 3, nil)
	snap := r.topic("snap", 1, map[string]string{"cleanup.policy": "compact"})
	check := r.topic("check", 1, map[string]string{"cleanup.policy": "compact"})
	k := r.open(20*time.Second, nil)
	at := time.UnixMilli(time.Now().UnixMilli() - 1000)
	var msgs []sink.Message
	for i := range 9 {
		m := message(out, int32(i%3), fmt.Sprint(i))
		m.Time, m.Headers = at, []source.Header{{Key: "lca-source-offset", Value: []byte(fmt.Sprint(i))}, {Key: "empty", Value: []byte{}}}
		msgs = append(msgs, m)
	}
	chunk := func(key, value string) sink.Message {
		m := sink.Message{Topic: snap, Key: []byte(key)}
		if value != "" {
			m.Value = []byte(value)
		}
		return m
	}
	msgs = append(msgs, chunk("m/0/model/0", "W"), chunk("m/0/neighbours/0", "X"), chunk("m/0/neighbours/1", ""), message(check, 0, "state"))
	first, second := source.Partition{Topic: in, ID: 0}, source.Partition{Topic: in, ID: 1}
	claim := source.Claim{
		Group: r.name, Generation: -1, Next: source.Offsets{first: 41, second: 42},
		Metadata: map[source.Partition]string{second: "of which topic"},
	}
	mustPut(t, k, msgs, claim)

	r.want(out, "0:0", "0:3", "0:6", "1:1", "1:4", "1:7", "2:2", "2:5", "2:8")
	r.want(snap, "0:W", "0:X", "0:∅")
	r.want(check, "0:state")
	if diff := cmp.Diff(map[string]int64{in + "/0": 41, in + "/1": 42}, r.GroupOffsets(t, r.name)); diff != "" {
		t.Errorf("committed offsets (-want +got):\n%s", diff)
	}
	got, err := source.Committed(t.Context(), r.cluster(nil), r.name, []source.Partition{first, second})
	if err != nil || got[first].Metadata != "" || got[second].Metadata != "of which topic" {
		t.Errorf("committed with the offsets: %v, %v", got, err)
	}
	for _, rec := range r.ReadCommitted(t, out) {
		if !rec.Timestamp.Equal(at) || len(rec.Headers) != 2 || string(rec.Headers[0].Value) != string(rec.Value) || rec.Headers[1].Value == nil {
			t.Errorf("record came as %v %v %v", rec.Timestamp, rec.Headers, rec.Value)
		}
	}
	mustPut(t, k, nil, source.Claim{}) // nothing to do is not a transaction
	mustPut(t, k, nil, r.claim(in, 50))
	r.wantOffset(in, 50)
	mustPut(t, k, []sink.Message{message(out, 0, "no claim")}, source.Claim{})
	if got := r.settled(out); len(got) != 10 {
		t.Errorf("%d records after a Put without a claim, want 10", len(got))
	}
}

// What a transaction costs: five round trips in version 1, three in version 2. All partitions of a leader are
// one round trip.
func testRoundTrips(t *testing.T, r *rig) {
	in, out, side := r.topic("in", 1, nil), r.topic("out", 4, nil), r.topic("side", 1, nil)
	wire := &Wire{}
	k := r.open(20*time.Second, wire)
	mustPut(t, k, []sink.Message{message(out, 0, "first"), message(side, 0, "first")}, r.claim(in, 1)) // also asks for limits and coordinators
	r.want(out, "0:first")                                                                             // its end is not waited for by the next one
	keys := []int16{keyAddPartitions, keyAddOffsets, keyTxnOffsetCommit, keyProduce, keyEndTxn, keyInitProducer, keyFindCoordinator}
	var before, got []int
	for _, key := range keys {
		before = append(before, wire.Count(key))
	}
	msgs := []sink.Message{message(out, 3, "a"), message(side, 0, "b"), message(out, 0, "c"), message(out, 3, "d")}
	mustPut(t, k, msgs, r.claim(in, 2))
	for i, key := range keys {
		got = append(got, wire.Count(key)-before[i])
	}
	want := []int{1, 1, 1, 1, 1, 0, 0}
	if r.version == 2 {
		want = []int{0, 0, 1, 1, 1, 0, 0}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests of the second transaction, of keys %v (-want +got):\n%s", keys, diff)
	}
	r.want(out, "0:first", "0:c", "3:a", "3:d")
	r.want(side, "0:first", "0:b")
}

// Whichever request of a transaction loses its connection, before or after it was carried out: Put
// tells the truth, or the committed offset does; nothing is lost, doubled or left open.
func testCutAtEveryRequest(t *testing.T, r *rig) {
	in := r.topic("in", 1, nil)
	out, side := r.topic("out", 2, nil), r.topic("side", 1, nil)
	wire := &Wire{}
	k := r.open(20*time.Second, wire)
	var want, wantSide []string
	next := int64(0)
	for _, key := range []int16{keyFindCoordinator, keyAddPartitions, keyAddOffsets, keyTxnOffsetCommit, keyProduce, keyEndTxn} {
		for _, how := range []func(int16){wire.CutBefore, wire.CutAfter} {
			how(key)
			if key == keyEndTxn { // and the repair is cut as well, at each of its requests
				how(keyEndTxn)
				how(keyInitProducer)
			}
			next++
			v := fmt.Sprint(next)
			msgs := []sink.Message{message(out, 0, v), message(out, 1, v), message(side, 0, v)}
			for tries := 0; ; tries++ {
				err := put(t, k, msgs, r.claim(in, next))
				if err == nil {
					break
				}
				if tries > 3 || sink.Permanent(err) {
					t.Fatalf("API key %d: %v", key, err)
				}
				if r.GroupOffsets(t, r.name)[in+"/0"] == next {
					break // it was committed, though the answer was lost
				}
			}
			want, wantSide = append(want, v), append(wantSide, "0:"+v)
		}
	}
	if wire.Count(keyFindCoordinator) > 30 {
		t.Errorf("%d FindCoordinator requests: the coordinator should be remembered", wire.Count(keyFindCoordinator))
	}
	var both []string
	for p := range 2 {
		for _, v := range want {
			both = append(both, fmt.Sprintf("%d:%s", p, v))
		}
	}
	r.want(out, both...)
	r.want(side, wantSide...)
	r.wantOffset(in, next)
}

// Opening the same id fences the former owner, in a transaction or not, forever.
func testOldOwnerIsFenced(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	wire := &Wire{}
	old := r.open(20*time.Second, wire)
	mustPut(t, old, []sink.Message{message(out, 0, "old 1")}, r.claim(in, 1))

	held, release := wire.Hold(keyEndTxn)
	failed := make(chan error, 1)
	go func() {
		failed <- old.Put(context.Background(), []sink.Message{message(out, 0, "old 2")}, r.claim(in, 2))
	}()
	await(t, held)
	young := r.open(20*time.Second, nil)
	r.wantOffset(in, 1) // what the new owner reads is final
	release()
	if err := <-failed; !errors.Is(err, sink.ErrFenced) {
		t.Errorf("the old owner's open transaction ended with %v, want ErrFenced", err)
	}
	mustPut(t, young, []sink.Message{message(out, 0, "young 2")}, r.claim(in, 2))
	if err := put(t, old, []sink.Message{message(out, 0, "old 3")}, r.claim(in, 3)); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("once fenced: %v, want ErrFenced", err)
	}
	third := r.open(20*time.Second, nil)
	if err := put(t, young, []sink.Message{message(out, 0, "young 3")}, r.claim(in, 3)); !errors.Is(err, sink.ErrFenced) {
		t.Errorf("an idle owner after a takeover: %v, want ErrFenced", err)
	}
	mustPut(t, third, []sink.Message{message(out, 0, "third 3")}, r.claim(in, 3))
	r.want(out, "0:old 1", "0:young 2", "0:third 3")
	r.wantOffset(in, 3)
}

// A process that stood still inside its commit wakes up while its successor is inside a
// transaction, and gets no answer. What it does to recover must neither end the successor's
// transaction nor take the work back (InitProducerId with the old epoch would: see renew).
func testZombieDoesNotDisturb(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	oldWire, youngWire := &Wire{}, &Wire{}
	old := r.open(12*time.Second, oldWire) // gives requests up after 3 s, time for what follows
	oldHeld, drop := oldWire.Hold(keyEndTxn)
	defer drop()
	woken := make(chan error, 1)
	go func() {
		woken <- old.Put(context.Background(), []sink.Message{message(out, 0, "zombie")}, r.claim(in, 9))
	}()
	await(t, oldHeld)

	young := r.open(20*time.Second, youngWire)
	youngHeld, release := youngWire.Hold(keyEndTxn)
	done := make(chan error, 1)
	go func() {
		done <- young.Put(context.Background(), []sink.Message{message(out, 0, "young")}, r.claim(in, 1))
	}()
	await(t, youngHeld)
	if err := <-woken; !errors.Is(err, sink.ErrFenced) {
		t.Errorf("the zombie: %v, want ErrFenced", err)
	}
	release()
	if err := <-done; err != nil {
		t.Errorf("the new owner: %v", err)
	}
	mustPut(t, young, []sink.Message{message(out, 0, "young again")}, r.claim(in, 2))
	r.want(out, "0:young", "0:young again")
	r.wantOffset(in, 2)
}

// EndTxn is lost on the way, and arrives when the next transaction is open: Kafka's protocol
// without KIP-890 would commit that one half written.
func testLateCommit(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	wire := &Wire{}
	k := r.open(4*time.Second, wire) // requests are given up after a second
	late := wire.Steal(keyEndTxn)
	err := put(t, k, []sink.Message{message(out, 0, "first")}, r.claim(in, 1))
	await(t, late.Sent)
	var want []string
	switch {
	case r.version == 2: // EndTxn may be repeated, and was
		if err != nil {
			t.Fatalf("Put with a repeated EndTxn: %v", err)
		}
		want = []string{"0:first"}
	case err == nil || errors.Is(err, sink.ErrFenced) || sink.Permanent(err):
		t.Fatalf("Put without an answer to EndTxn: %v, want an error that passes", err)
	}
	r.want(out, want...)
	r.wantOffset(in, int64(len(want)))

	second, release := wire.Hold(keyEndTxn)
	done := make(chan error, 1)
	go func() {
		done <- k.Put(context.Background(), []sink.Message{message(out, 0, "again")}, r.claim(in, int64(len(want)+1)))
	}()
	await(t, second)
	if _, err := late.Deliver(); err != nil {
		t.Fatal(err)
	}
	if state := r.Transaction(t, r.name); state != kafkatest.Ongoing {
		t.Errorf("after the late EndTxn the open transaction is in state %s", state)
	}
	release()
	if err := <-done; err != nil {
		t.Fatalf("Put: %v", err)
	}
	r.want(out, append(want, "0:again")...)
	r.wantOffset(in, int64(len(want)+1))
}

// The request that opens a transaction gets no answer, its repetition does, and the first copy arrives after the
// commit: it must not open a transaction, which no process would end and whose timeout would fence us.
func testLateRequest(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	wire := &Wire{}
	k := r.open(2*time.Second, wire) // requests are given up after half a second
	late := wire.Steal(r.opening())
	mustPut(t, k, []sink.Message{message(out, 0, "a")}, r.claim(in, 1))
	r.want(out, "0:a") // the commit is complete
	if _, err := late.Deliver(); err != nil {
		t.Fatal(err)
	}
	if state := r.Transaction(t, r.name); state == kafkatest.Ongoing {
		t.Error("the late request has opened a transaction")
	}
	mustPut(t, k, []sink.Message{message(out, 0, "b")}, r.claim(in, 2))
	r.want(out, "0:a", "0:b")
	r.wantOffset(in, 2)
}

// opening is the request that begins a transaction with one partition.
func (r *rig) opening() int16 {
	if r.version == 2 {
		return keyTxnOffsetCommit
	}
	return keyAddPartitions
}

// awaitAborted waits until the broker has ended the open transaction by itself: it looks for those beyond their timeout now and then.
func (r *rig) awaitAborted() {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); r.Transaction(r.t, r.name) == kafkatest.Ongoing; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatal("the broker has not ended a transaction a minute after it began")
		}
	}
}

// A transaction that outlives its timeout is aborted by the broker, which fences its owner for that. No other process
// has the work, so the owner goes on; of two owners the new one does. The embedded broker does not say of a
// transaction of version 1 that it was aborted, so there its owner has to go.
func testTimeout(t *testing.T, r *rig) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	want := []string{"0:before"}
	for _, another := range []bool{false, true} {
		wire := &Wire{}
		k := r.open(2*time.Second, wire)
		mustPut(t, k, []sink.Message{message(out, 0, "before")}, r.claim(in, 1))
		held, release := wire.Hold(keyProduce)
		done := make(chan error, 1)
		go func() { done <- k.Put(context.Background(), []sink.Message{message(out, 0, "late")}, r.claim(in, 2)) }()
		await(t, held)
		resume := wire.Pause()
		r.awaitAborted()
		var next *sink.Kafka
		if another {
			next = r.open(2*time.Second, nil)
		}
		release()
		resume()
		fenced := another || r.Kind == kafkatest.Embedded && r.version < 2
		if err := <-done; err == nil || errors.Is(err, sink.ErrFenced) != fenced {
			t.Errorf("Put after the timeout, another owner %v, version %d: %v", another, r.version, err)
		}
		r.want(out, want...)
		if fenced && !another {
			k = r.open(2*time.Second, nil)
		}
		if !another {
			mustPut(t, k, []sink.Message{message(out, 0, "by the same owner")}, r.claim(in, 2))
			want = append(want, "0:by the same owner", "0:before")
			r.want(out, want[:2]...)
			continue
		}
		mustPut(t, next, []sink.Message{message(out, 0, "after")}, r.claim(in, 2))
		r.want(out, append(want, "0:after")...)
	}
}
