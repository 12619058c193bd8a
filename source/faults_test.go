package source_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// fake starts three brokers in the process, with topic "t" of three partitions.
func fake(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(3, "t"), kfake.GroupMinSessionTimeout(100 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestFetchRetries: each of these passes by itself, and no record is lost or comes twice.
func TestFetchRetries(t *testing.T) {
	for name, trouble := range map[string]func(*testing.T, *kfake.Cluster){
		"not leader":                  faults(kmsg.Fetch, kerr.NotLeaderForPartition),
		"no leader":                   faults(kmsg.Fetch, kerr.LeaderNotAvailable),
		"leader epoch":                faults(kmsg.Fetch, kerr.FencedLeaderEpoch),
		"newly created":               faults(kmsg.Fetch, kerr.UnknownTopicOrPartition),
		"disk":                        faults(kmsg.Fetch, kerr.KafkaStorageError),
		"new leader behind":           faults(kmsg.Fetch, kerr.OffsetNotAvailable),
		"right taken away":            faults(kmsg.Fetch, kerr.TopicAuthorizationFailed),
		"out of range, but it is not": faults(kmsg.Fetch, kerr.OffsetOutOfRange),
		"connection cut": func(_ *testing.T, c *kfake.Cluster) {
			for range 2 {
				c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
					return nil, errors.New("cut"), true
				})
			}
		},
		"leader moves": func(t *testing.T, c *kfake.Cluster) {
			if err := c.MoveTopicPartition("t", 0, (c.LeaderFor("t", 0)+1)%3); err != nil {
				t.Fatal(err)
			}
		},
		"metadata fail too": func(t *testing.T, c *kfake.Cluster) {
			faults(kmsg.Fetch, kerr.NotLeaderForPartition)(t, c)
			c.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
				return nil, errors.New("cut"), true
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake(t)
			p := producer(t, c.ListenAddrs())
			f := source.NewFetcher(source.FetcherConfig{
				Cluster: open(t, c.ListenAddrs()...), Partition: source.Partition{Topic: "t"}, MaxWait: 10 * time.Millisecond,
			})
			var got []string
			for _, v := range []string{"one", "two", "three"} {
				write(t, p, record("t", 0, "", v))
				values, _ := fetchEnd(t, f)
				got = append(got, values...)
				if v == "one" {
					trouble(t, c)
				}
			}
			if diff := cmp.Diff([]string{"one", "two", "three"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// faults makes the next two requests of a kind fail.
func faults(key kmsg.Key, err *kerr.Error) func(*testing.T, *kfake.Cluster) {
	return func(_ *testing.T, c *kfake.Cluster) {
		c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: 2})
	}
}

// TestFetchErrors: these do not pass, and the error says what to do.
func TestFetchErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		err  *kerr.Error
		want error
		text string
	}{
		{"not allowed", kerr.TopicAuthorizationFailed, kafka.TopicAuthorizationFailed, "needs READ"},
		{"never a leader", kerr.NotLeaderForPartition, kafka.NotLeaderForPartition, "gave up after"},
		{"deleted", kerr.UnknownTopicOrPartition, kafka.UnknownTopicOrPartition, "does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker := fake(t)
			broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: c.err, Count: -1})
			f := source.NewFetcher(source.FetcherConfig{
				Cluster: open(t, broker.ListenAddrs()...), Partition: source.Partition{Topic: "t"}, RetryFor: 50 * time.Millisecond,
			})
			_, err := f.Fetch(within(t))
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "fetch t/0@0") {
				t.Errorf("got %v, want one that says %q", err, c.text)
			}
		})
	}
	t.Run("the caller gives up", func(t *testing.T) {
		broker := fake(t)
		broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
		f := source.NewFetcher(source.FetcherConfig{Cluster: open(t, broker.ListenAddrs()...), Partition: source.Partition{Topic: "t"}})
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(within(t))
		time.AfterFunc(20*time.Millisecond, func() { cancel(stop) })
		if _, err := f.Fetch(ctx); !errors.Is(err, stop) {
			t.Errorf("got %v, want the cause of the context's end", err)
		}
	})
}

// at numbers a batch as the broker would.
func at(base int64, batch []byte) []byte {
	binary.BigEndian.PutUint64(batch, uint64(base))
	return batch
}

// marker is the control batch that ends a transaction. (recordbatch writes no control batches: only
// brokers do.)
func marker(base, producer int64, kind byte) []byte {
	b := recordbatch.Append(nil, []recordbatch.Record{{Key: []byte{0, 0, 0, kind}, Value: make([]byte, 6)}}, recordbatch.Producer{ID: producer, Sequence: -1, Transactional: true})
	b[22] |= 1 << 5
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return at(base, b)
}

func values(vs ...string) (recs []recordbatch.Record) {
	for _, v := range vs {
		recs = append(recs, recordbatch.Record{Value: []byte(v)})
	}
	return recs
}

// TestFetchOverQuota: an answer without topics says to wait, however long quotas hold the reader back.
func TestFetchOverQuota(t *testing.T) {
	broker := fake(t)
	held := 0
	broker.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		res := r.ResponseKind().(*kmsg.FetchResponse)
		if held < 3 {
			held++
			res.ThrottleMillis = 20
			return res, nil, true
		}
		res.Topics = []kmsg.FetchResponseTopic{{Topic: "t", TopicID: r.(*kmsg.FetchRequest).Topics[0].TopicID, Partitions: []kmsg.FetchResponseTopicPartition{{
			HighWatermark: 1, LastStableOffset: 1, RecordBatches: recordbatch.Append(nil, values("a"), recordbatch.NoProducer()),
		}}}}
		return res, nil, true
	})
	f := source.NewFetcher(source.FetcherConfig{
		Cluster: open(t, broker.ListenAddrs()...), Partition: source.Partition{Topic: "t"}, RetryFor: time.Nanosecond,
	})
	got, err := f.Fetch(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if held != 3 || len(got.Records) != 1 || string(got.Records[0].Value) != "a" {
		t.Errorf("after %d answers that said to wait: %v", held, got.Records)
	}
}

// TestFetchResponses feeds the fetcher answers that a broker gives only rarely.
func TestFetchResponses(t *testing.T) {
	none := recordbatch.NoProducer()
	txn := recordbatch.Producer{ID: 9, Transactional: true}
	plain := func(base int64, vs ...string) []byte { return at(base, recordbatch.Append(nil, values(vs...), none)) }
	damaged := plain(2, "damaged")
	damaged[len(damaged)-2] ^= 1
	large := strings.Repeat("x", 5000)
	equal := func(producer int64) []byte { // a batch of two records that have one offset
		f := kafkatest.Forged{Records: slices.Concat(kafkatest.ForgedRecord(0, nil, 0), kafkatest.ForgedRecord(0, nil, 0)), Count: 2}
		if producer >= 0 {
			f.Bits = 1 << 4 // of a transaction
			f.Change = func(b []byte) { binary.BigEndian.PutUint64(b[43:], uint64(producer)) }
		}
		return f.Bytes(t)
	}
	garbled := func(base, producer int64) []byte { // a control batch whose key is too short
		b := marker(base, producer, 0)
		return at(base, kafkatest.Forged{Records: kafkatest.ForgedRecord(0, nil, 0), Count: 1, Bits: binary.BigEndian.Uint16(b[21:]), Change: func(f []byte) { copy(f[43:53], b[43:53]) }}.Bytes(t))
	}
	for _, c := range []struct {
		name    string
		from    int64
		records []byte
		aborted []int64 // first offsets of transactions of producer 9
		want    []string
		next    int64
		text    string // of the error, or of the rejected one
		code    string // of the rejected one
	}{
		{name: "begins before what was asked for", from: 1, records: slices.Concat(plain(-2, "a", "b"), plain(0, "c", "d", "e")), want: []string{"d", "e"}, next: 3},
		{name: "a marker before what was asked for", from: 2, records: slices.Concat(marker(1, 9, 0), at(2, recordbatch.Append(nil, values("kept"), txn))), aborted: []int64{0}, want: []string{"kept"}, next: 3},
		{name: "a marker without records, then a commit", records: slices.Concat(marker(4, 9, 0), at(5, recordbatch.Append(nil, values("kept"), txn)), marker(6, 9, 1)), aborted: []int64{0}, want: []string{"kept"}, next: 7},
		{name: "records that begin behind a gap", records: plain(100, "a"), want: []string{"a"}, next: 101},
		{name: "good, then damaged", records: slices.Concat(plain(0, "a", "b"), damaged), want: []string{"a", "b"}, next: 2},
		{name: "damaged", records: damaged, next: 3, text: "checksum", code: source.CodeBatchDamaged},
		{name: "damaged, and where it ends too", records: slices.Concat(func() []byte { b := bytes.Clone(damaged); b[25] = 7; return b }(), plain(3, "good")), next: 4, want: []string{"good"}, text: "checksum", code: source.CodeBatchDamaged},
		{name: "half a batch and no more", records: damaged[:70], text: "sent 70 bytes of a batch"},
		{name: "old format", records: func() []byte { b := plain(0, "a"); b[16] = 1; return b }(), next: 1, text: "before Kafka 0.11", code: source.CodeBatchInvalid},
		{name: "a batch in the middle of which the records contradict themselves", records: slices.Concat(plain(0, "a"), at(1, equal(-1)), plain(3, "b")), want: []string{"a", "b"}, next: 4, text: "2 records, to offset 2", code: source.CodeBatchInvalid},
		{name: "the second half of one", from: 2, records: slices.Concat(at(1, equal(-1)), plain(3, "b")), want: []string{"b"}, next: 4, text: "t/0@2", code: source.CodeBatchInvalid},
		{name: "one of an aborted transaction", records: slices.Concat(at(0, equal(9)), marker(2, 9, 0), plain(3, "b")), aborted: []int64{0}, want: []string{"b"}, next: 4},
		{name: "an abort marker of a kind that is not known", records: slices.Concat(at(0, recordbatch.Append(nil, values("aborted"), txn)), garbled(1, 9), at(2, recordbatch.Append(nil, values("kept"), txn))), aborted: []int64{0}, next: 2},
		{name: "a commit marker of a kind that is not known", records: slices.Concat(at(0, recordbatch.Append(nil, values("a"), txn)), garbled(1, 9), at(2, recordbatch.Append(nil, values("b"), txn))), want: []string{"a", "b"}, next: 3},
		{name: "a batch over the limit", from: 3, records: plain(2, large, large, large), next: 5, text: "3 records, to offset 4", code: format.CodeTooLarge},
		{name: "a batch over the limit of a response", records: plain(0, strings.Repeat("x", 2<<20)), next: 1, text: "a batch of 20972", code: format.CodeTooLarge},
		{name: "a record over the limit is the decoder's to refuse, with its bytes", records: plain(0, "a", large[:1500], "b"), want: []string{"a", large[:1500], "b"}, next: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker := fake(t)
			broker.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
				broker.KeepControl()
				res := r.ResponseKind().(*kmsg.FetchResponse)
				part := kmsg.FetchResponseTopicPartition{HighWatermark: 1000, LastStableOffset: 1000, RecordBatches: c.records}
				for _, first := range c.aborted {
					part.AbortedTransactions = append(part.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: 9, FirstOffset: first})
				}
				res.Topics = []kmsg.FetchResponseTopic{{Topic: "t", TopicID: r.(*kmsg.FetchRequest).Topics[0].TopicID, Partitions: []kmsg.FetchResponseTopicPartition{part}}}
				return res, nil, true
			})
			f := source.NewFetcher(source.FetcherConfig{
				Cluster: open(t, broker.ListenAddrs()...), Partition: source.Partition{Topic: "t"}, Offset: c.from, MaxBytes: 1, MaxMessageBytes: 1000, MaxBatchBytes: 4000, SetAside: true,
			})
			got, err := f.Fetch(within(t))
			if c.next == 0 {
				if err == nil || !strings.Contains(err.Error(), c.text) {
					t.Errorf("got %v, want an error that says %q", err, c.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var vs []string
			for _, r := range got.Records {
				vs = append(vs, string(r.Value))
			}
			if !cmp.Equal(c.want, vs) || got.Next != c.next || f.Next() != c.next {
				t.Errorf("got %q, next %d; want %q, next %d", vs, got.Next, c.want, c.next)
			}
			if rejected := len(got.Rejected) > 0; rejected != (c.text != "") || rejected && (got.Rejected[0].Code != c.code || !strings.Contains(got.Rejected[0].Error(), c.text)) {
				t.Errorf("rejected %v, want %q", got.Rejected, c.text)
			}
		})
	}
}

// What a take-over looks up waits for a right that the process had: the topic, places in it, committed offsets, and what is read back. At the start of a process
// it does not.
func TestTakeOversWaitForARightThatTheyHad(t *testing.T) {
	parts := []source.Partition{{Topic: "t"}}
	for name, c := range map[string]struct {
		key   kmsg.Key
		right *kerr.Error
		look  func(context.Context, *kafkaconn.Cluster) error
	}{
		"topic": {kmsg.Metadata, kerr.TopicAuthorizationFailed, func(ctx context.Context, c *kafkaconn.Cluster) error {
			_, err := source.LookUp(ctx, c, "t")
			return err
		}},
		"end": {kmsg.ListOffsets, kerr.TopicAuthorizationFailed, func(ctx context.Context, c *kafkaconn.Cluster) error {
			_, err := source.ListOffsets(ctx, c, parts, source.Latest)
			return err
		}},
		"committed": {kmsg.OffsetFetch, kerr.GroupAuthorizationFailed, func(ctx context.Context, c *kafkaconn.Cluster) error {
			_, err := source.Committed(ctx, c, "g", parts)
			return err
		}},
		"read back": {kmsg.Fetch, kerr.TopicAuthorizationFailed, func(ctx context.Context, c *kafkaconn.Cluster) error {
			_, err := source.NewFetcher(source.FetcherConfig{Cluster: c, Partition: parts[0], MaxWait: 10 * time.Millisecond}).Fetch(ctx)
			return err
		}},
	} {
		for _, had := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, %v", name, had), func(t *testing.T) {
				t.Parallel()
				k := fake(t)
				faults(c.key, c.right)(t, k)
				cluster := open(t, k.ListenAddrs()...)
				if had {
					cluster.Allow()
				}
				if err := c.look(t.Context(), cluster); (err == nil) != had {
					t.Errorf("with a right that the process had, %v: %v", had, err)
				}
			})
		}
	}
}
