package sink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// end is what becomes of a transaction in which a broker answers with an error.
type end string

const (
	repeated  end = "repeated until it is carried out" // Put succeeds
	aborted   end = "ended with a new epoch"           // Put fails, the next one works
	fenced    end = "fenced"
	revoked   end = "revoked"
	permanent end = "permanent" // Put fails for good, but a later one may work
)

type answers struct {
	why   string
	keys  []kmsg.Key
	codes []kafka.Error
	want  end
}

// What Put makes of each code that a broker may answer with. The embedded broker is told to.
func TestAnswers(t *testing.T) {
	transaction := []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn}
	testAnswers(t, 1, append(answersOfBoth(transaction),
		answers{"committed or not: not known", []kmsg.Key{kmsg.EndTxn}, []kafka.Error{kafka.RequestTimedOut}, aborted},
		answers{"a newer producer", append(transaction, kmsg.Produce), []kafka.Error{kafka.ProducerFenced, kafka.InvalidProducerEpoch}, fenced},
		answers{"no right to write", []kmsg.Key{kmsg.AddPartitionsToTxn}, []kafka.Error{kafka.TopicAuthorizationFailed}, permanent},
	))
}

// A right to a topic, a group or a transactional id that a process had is waited for within the transaction: offsets take the right to read, too.
func TestRightsThatReturn(t *testing.T) {
	const topic, group, id = kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.TransactionalIDAuthorizationFailed
	for version := 1; version <= 2; version++ {
		b := kafkatest.StartWith(t, kafkatest.Embedded, kafkatest.Setup{Transactions2: version == 2})
		for i, c := range []struct {
			key  kmsg.Key
			code kafka.Error
			both bool // versions
		}{{kmsg.Produce, topic, true}, {kmsg.TxnOffsetCommit, topic, true}, {kmsg.TxnOffsetCommit, group, true}, {kmsg.AddPartitionsToTxn, topic, false}, {kmsg.AddOffsetsToTxn, group, false},
			{kmsg.AddPartitionsToTxn, id, false}, {kmsg.AddOffsetsToTxn, id, false}, {kmsg.TxnOffsetCommit, id, true}, {kmsg.EndTxn, id, true}} {
			if version == 1 || c.both {
				r := &rig{Broker: b, t: t, name: fmt.Sprintf("returns%d-%d", version, i), version: version, reads: true}
				r.answer(answers{why: "a right is replaced", want: repeated}, c.key, c.code)
			}
		}
	}
}

// The same in version 2, where fewer requests say more.
func TestAnswersVersion2(t *testing.T) {
	transaction := []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.EndTxn}
	const abortable = kafka.Error(120) // TRANSACTION_ABORTABLE
	testAnswers(t, 2, append(answersOfBoth(transaction),
		answers{"the coordinator moves, as the leader sees it", []kmsg.Key{kmsg.Produce}, []kafka.Error{kafka.GroupLoadInProgress, kafka.NotCoordinatorForGroup, kafka.ConcurrentTransactions, kafka.NetworkException}, repeated},
		answers{"EndTxn may be repeated", []kmsg.Key{kmsg.EndTxn}, []kafka.Error{kafka.RequestTimedOut, kafka.NetworkException}, repeated},
		answers{"the broker asks for it", append(transaction, kmsg.Produce), []kafka.Error{abortable}, aborted},
		answers{"a newer producer", append(transaction, kmsg.Produce), []kafka.Error{kafka.ProducerFenced}, fenced},
		answers{"a newer producer, or the broker has ended the transaction for its age; the coordinator knows", []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit}, []kafka.Error{kafka.InvalidProducerEpoch}, aborted},
		answers{"an older broker: the next transaction is of version 1", []kmsg.Key{kmsg.Produce, kmsg.TxnOffsetCommit}, []kafka.Error{kafka.UnsupportedVersion}, aborted},
	))
}

func answersOfBoth(transaction []kmsg.Key) []answers {
	return []answers{
		{"the coordinator moves or loads", transaction, []kafka.Error{kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup}, repeated},
		{"the transaction before is still being ended", transaction, []kafka.Error{kafka.ConcurrentTransactions}, repeated},
		{"leaders move, followers are slow, disks fail", []kmsg.Key{kmsg.Produce}, []kafka.Error{kafka.InvalidMessage, kafka.UnknownTopicOrPartition,
			kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.NotEnoughReplicas, kafka.KafkaStorageError}, repeated},
		{"written, and then the answer is an error: the same sequence is not written again", []kmsg.Key{kmsg.Produce}, []kafka.Error{kafka.RequestTimedOut, kafka.NotEnoughReplicasAfterAppend}, repeated},
		{"written already, by an earlier copy", []kmsg.Key{kmsg.TxnOffsetCommit}, []kafka.Error{kafka.RequestTimedOut}, repeated},
		{"the broker has lost our sequence", []kmsg.Key{kmsg.Produce}, []kafka.Error{kafka.OutOfOrderSequenceNumber, kafka.UnknownProducerId}, aborted},
		{"the transaction was ended under us", slices.Concat(transaction, []kmsg.Key{kmsg.Produce}), []kafka.Error{kafka.InvalidTransactionState}, aborted},
		{"the group has moved on", []kmsg.Key{kmsg.TxnOffsetCommit}, []kafka.Error{kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.RebalanceInProgress, kafka.FencedInstanceID}, revoked},
		{"no right", transaction, []kafka.Error{kafka.TransactionalIDAuthorizationFailed}, permanent},
		{"no right to write", []kmsg.Key{kmsg.Produce}, []kafka.Error{kafka.TopicAuthorizationFailed}, permanent},
		{"a record that the topic refuses", []kmsg.Key{kmsg.Produce}, []kafka.Error{kafka.InvalidRecord, kafka.InvalidTimestamp}, permanent},
	}
}

func testAnswers(t *testing.T, version int, cases []answers) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // after the broker's own
	b := kafkatest.StartWith(t, kafkatest.Embedded, kafkatest.Setup{Transactions2: version == 2})
	n := 0
	for _, c := range cases {
		for _, key := range c.keys {
			for _, code := range c.codes {
				n++
				t.Run(fmt.Sprintf("%s/%s/%d", c.want, key.Name(), code), func(t *testing.T) {
					r := &rig{Broker: b, t: t, name: fmt.Sprintf("answer%d", n), version: version}
					r.answer(c, key, code)
				})
			}
		}
	}
}

// answer makes the broker answer with a code in the second of three transactions.
func (r *rig) answer(c answers, key kmsg.Key, code kafka.Error) {
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	k := r.open(20*time.Second, nil)
	mustPut(r.t, k, []sink.Message{message(out, 0, "0")}, r.claim(in, 1))
	count := 1
	if c.want == repeated {
		count = 3
	}
	fault := r.Embedded().Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.TypedErrorForCode(int16(code)), Count: count})
	defer fault.Remove()
	err := put(r.t, k, []sink.Message{message(out, 0, "1")}, r.claim(in, 2))
	if fault.Hits() != count {
		r.t.Fatalf("%d answers of %d were given (%s)", fault.Hits(), count, c.why)
	}
	got := aborted
	switch {
	case err == nil:
		got = repeated
	case errors.Is(err, sink.ErrFenced):
		got = fenced
	case errors.Is(err, sink.ErrRevoked):
		got = revoked
	case sink.Permanent(err):
		got = permanent
	}
	if got != c.want {
		r.t.Fatalf("%s: %s, want %s: %v", c.why, got, c.want, err)
	}
	if got == fenced {
		r.open(20*time.Second, nil) // ends what was left open
		r.want(out, "0:0")
		return
	}
	if done := r.GroupOffsets(r.t, r.name)[in+"/0"] == 2; !done {
		mustPut(r.t, k, []sink.Message{message(out, 0, "1")}, r.claim(in, 2))
	}
	r.want(out, "0:0", "0:1")
	r.wantOffset(in, 2)
	want := r.version
	if code == kafka.UnsupportedVersion {
		want = 1
	}
	if got := sink.Version(k); got != want {
		r.t.Errorf("the transaction after it was of version %d, want %d", got, want)
	}
}

// Another owner that is caught in its first milliseconds looks like the coordinator's own abort. A transaction that is not as old as its timeout
// was not aborted for its age: it is fenced, and does not take the work back, however briefly.
func TestFencedBeforeTheTimeout(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	r := &rig{Broker: b, t: t, name: "young"}
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	wire := &Wire{}
	old := r.open(20*time.Second, wire)
	held, release := wire.Hold(keyEndTxn)
	failed := make(chan error, 1)
	go func() {
		failed <- old.Put(context.Background(), []sink.Message{message(out, 0, "old")}, r.claim(in, 1))
	}()
	await(t, held)
	young := r.open(20*time.Second, nil)
	id, epoch := sink.Producer(old)
	b.Embedded().Cluster().ControlKey(kmsg.DescribeTransactions.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		res := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		res.TransactionStates = []kmsg.DescribeTransactionsResponseTransactionState{{TransactionalID: r.name, State: "PrepareEpochFence", ProducerID: id, ProducerEpoch: epoch + 1}}
		return res, nil, true
	})
	release()
	if err := <-failed; !errors.Is(err, sink.ErrFenced) {
		t.Errorf("the old owner ended with %v, want ErrFenced", err)
	}
	mustPut(t, young, []sink.Message{message(out, 0, "young")}, r.claim(in, 1))
	r.want(out, "0:young")
}

// Ending a transaction is refused, so its outcome stays open. The next Put settles it and says so
// without writing anything, because what its caller has read since was not final.
func TestLostAndFound(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	r := &rig{Broker: b, t: t, name: "lost"}
	in, out := r.topic("in", 1, nil), r.topic("out", 1, nil)
	k := r.open(20*time.Second, nil)
	fault := b.Embedded().Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.TransactionalIDAuthorizationFailed, Count: 3})
	defer fault.Remove()
	for i, want := range []string{"lost", "lost", "read the committed offsets again"} {
		err := put(t, k, []sink.Message{message(out, 0, fmt.Sprint(i))}, r.claim(in, 1))
		if err == nil || !contains(err, want) {
			t.Fatalf("Put %d: %v, want %q", i, err, want)
		}
	}
	r.want(out)
	mustPut(t, k, []sink.Message{message(out, 0, "kept")}, r.claim(in, 1))
	r.want(out, "0:kept")
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if err := put(t, k, []sink.Message{message(out, 0, "late")}, r.claim(in, 2)); err == nil || !contains(err, "closed") {
		t.Errorf("Put after Close: %v", err)
	}
}

// All coordinators and leaders move between four brokers while transactions follow each other.
func TestMovingBrokers(t *testing.T) {
	b := kafkatest.StartN(t, kafkatest.Embedded, 4)
	r := &rig{Broker: b, t: t, name: "moving"}
	in, out := r.topic("in", 1, nil), r.topic("out", 4, nil)
	k := r.open(60*time.Second, nil)
	var want [4][]string
	for i := range 12 {
		switch i % 3 {
		case 1:
			b.Embedded().Cluster().RehashCoordinators()
		case 2:
			b.Embedded().Cluster().ShufflePartitionLeaders()
		}
		var msgs []sink.Message
		for p := range int32(4) {
			msgs = append(msgs, message(out, p, fmt.Sprint(i)))
			want[p] = append(want[p], fmt.Sprintf("%d:%d", p, i))
		}
		for tries := 0; ; tries++ {
			err := put(t, k, msgs, r.claim(in, int64(i+1)))
			if err == nil || r.GroupOffsets(t, r.name)[in+"/0"] == int64(i+1) {
				break
			}
			if tries == 3 {
				t.Fatalf("Put: %v", err)
			}
		}
	}
	var all []string
	for _, w := range want {
		all = append(all, w...)
	}
	r.want(out, all...)
}

// A timeout that is longer than the brokers allow is made shorter, and said so.
func TestTimeoutBeyondTheBrokers(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	r := &rig{Broker: b, t: t, name: "long"}
	var log bytes.Buffer
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{
		Cluster: r.cluster(nil), TransactionalID: "long", Timeout: 24 * time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	out := r.topic("out", 1, nil)
	mustPut(t, k, []sink.Message{message(out, 0, "a")}, source.Claim{})
	r.want(out, "0:a")
	if !strings.Contains(log.String(), "transaction.max.timeout.ms") {
		t.Errorf("the log says %s", &log)
	}
	if _, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: r.cluster(nil)}); err == nil {
		t.Error("OpenKafka without a transactional id succeeded")
	}
}
