package source_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// A checksum that is wrong may be the network's fault: what comes right when it is fetched again is read.
func TestDamagedBatchIsFetchedAgain(t *testing.T) {
	broker := fake(t)
	good := recordbatch.Append(nil, values("a", "b"), recordbatch.NoProducer())
	damaged := bytes.Clone(good)
	damaged[len(damaged)-1] ^= 1
	fetches := 0
	broker.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		fetches++
		res := r.ResponseKind().(*kmsg.FetchResponse)
		part := kmsg.FetchResponseTopicPartition{HighWatermark: 2, LastStableOffset: 2, RecordBatches: damaged}
		if fetches > 3 {
			part.RecordBatches = good
		}
		res.Topics = []kmsg.FetchResponseTopic{{Topic: "t", TopicID: r.(*kmsg.FetchRequest).Topics[0].TopicID, Partitions: []kmsg.FetchResponseTopicPartition{part}}}
		return res, nil, true
	})
	f := source.NewFetcher(source.FetcherConfig{Cluster: open(t, broker.ListenAddrs()...), Partition: source.Partition{Topic: "t"}, SetAside: true})
	got, err := f.Fetch(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if fetches != 4 || len(got.Records) != 2 || len(got.Rejected) != 0 {
		t.Errorf("after %d fetches %d records, rejected %v", fetches, len(got.Records), got.Rejected)
	}
}

// A reader of our own topics has nowhere to set a batch aside: there it is an error, and nothing is passed over.
func TestBadBatchOfOurOwnTopicIsAnError(t *testing.T) {
	broker := kafkatest.Start(t, kafkatest.Embedded)
	broker.CreateTopic(t, "own", 1, nil)
	record := kafkatest.ForgedRecord(0, nil, 0)
	if code := broker.Produce(t, "own", kafkatest.Forged{Records: slices.Concat(record, record), Count: 2}.Bytes(t)); code != 0 {
		t.Fatal(code)
	}
	f := source.NewFetcher(source.FetcherConfig{Cluster: open(t, broker.Addrs()...), Partition: source.Partition{Topic: "own"}})
	if got, err := f.Fetch(within(t)); !errors.Is(err, recordbatch.ErrCorrupt) || f.Next() != 0 {
		t.Errorf("%+v, %v, next %d", got, err, f.Next())
	}
}

// testBadBatches: what a broker takes and no client can read is one message with the bytes and the reason, in its
// place among the others.
func testBadBatches(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "bad", 1, nil)
	p := producer(t, b.Addrs())
	one := func(offset int) []byte { return kafkatest.ForgedRecord(offset, []byte("x"), 0) }
	var want []string
	next := int64(0)
	for _, c := range []struct {
		name    string
		batch   kafkatest.Forged
		offsets int64
		code    string
	}{
		{"equal offsets", kafkatest.Forged{Records: slices.Concat(one(0), one(0)), Count: 2}, 2, source.CodeBatchInvalid},
		{"descending offsets", kafkatest.Forged{Records: slices.Concat(one(1), one(0)), Count: 2}, 2, source.CodeBatchInvalid},
		{"one beyond the last", kafkatest.Forged{Records: slices.Concat(one(0), one(5)), Count: 2}, 2, source.CodeBatchInvalid},
		{"headers", kafkatest.Forged{Records: kafkatest.ForgedRecord(0, nil, 4_000_000), Count: 1, Codec: kgo.ZstdCompression()}, 1, format.CodeTooLarge},
	} {
		raw := c.batch.Bytes(t)
		if code := b.Produce(t, "bad", raw); code != 0 {
			t.Fatalf("%s: refused with code %d", c.name, code)
		}
		write(t, p, record("bad", 0, "", c.name))
		want = append(want, c.code, c.name)
		next += c.offsets + 1
	}
	k, err := source.OpenKafka(within(t), source.KafkaConfig{
		Cluster: open(t, b.Addrs()...), Start: source.Offsets{{Topic: "bad"}: 0}, End: source.Offsets{{Topic: "bad"}: next}, MaxMessageBytes: 4 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	var got []string
	for {
		batch, err := k.Read(within(t))
		if errors.Is(err, source.ErrEnd) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range batch.Messages {
			if m.Err == nil {
				got = append(got, string(m.Value))
				continue
			}
			got = append(got, m.Err.Code)
			if m.Err.Offsets == 0 || len(m.Value) < 61 || m.Time.IsZero() || !strings.Contains(m.Err.Error(), "cannot be read") {
				t.Errorf("%d offsets, %d bytes, time %v: %v", m.Err.Offsets, len(m.Value), m.Time, m.Err)
			}
		}
		batch.Release()
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
