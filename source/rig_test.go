package source_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// open connects to a broker for the length of the test.
func open(t testing.TB, addrs ...string) *kafkaconn.Cluster {
	t.Helper()
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: addrs, ClientID: "source-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// within bounds a test's waiting: reaching it is a failure, not a measurement.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// producer is franz-go's client: what our reader reads is never written by our writer here.
func producer(t testing.TB, addrs []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MetadataMinAge(100 * time.Millisecond),
	}, opts...)
	c, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func record(topic string, partition int32, key, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(value)}
}

// write produces records, each call one batch a partition, and waits for them.
func write(t testing.TB, p *kgo.Client, recs ...*kgo.Record) {
	t.Helper()
	if err := p.ProduceSync(within(t), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// writeTxn produces records in one transaction.
func writeTxn(t testing.TB, p *kgo.Client, end kgo.TransactionEndTry, recs ...*kgo.Record) {
	t.Helper()
	if err := p.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	write(t, p, recs...)
	if err := p.EndTransaction(within(t), end); err != nil {
		t.Fatal(err)
	}
}

// fetchAll reads a partition to its stable end, and says what it saw last.
func fetchAll(t testing.TB, f *source.Fetcher) (values []string, last source.Fetched) {
	t.Helper()
	ctx := within(t)
	for {
		got, err := f.Fetch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.Records {
			values = append(values, string(r.Value))
		}
		if got.Next >= got.LastStable {
			return values, got
		}
	}
}

// fetchEnd reads a partition to its end, waiting for open transactions and late markers.
func fetchEnd(t testing.TB, f *source.Fetcher) (values []string, offsets []int64) {
	t.Helper()
	ctx := within(t)
	for {
		got, err := f.Fetch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.Records {
			values, offsets = append(values, string(r.Value)), append(offsets, r.Offset)
		}
		if got.Next == got.HighWatermark {
			return values, offsets
		}
	}
}

// readAll reads a bounded source to its end: the values of each partition, and the last claim.
func readAll(t testing.TB, k *source.Kafka) (values map[int32][]string, order []string, claim source.Claim) {
	t.Helper()
	ctx := within(t)
	values = make(map[int32][]string)
	for {
		b, err := k.Read(ctx)
		if errors.Is(err, source.ErrEnd) {
			return values, order, claim
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range b.Messages {
			values[m.Partition.ID] = append(values[m.Partition.ID], string(m.Value))
			order = append(order, fmt.Sprintf("%d@%d", m.Partition.ID, m.Offset))
		}
		claim = b.Claim
		b.Release()
	}
}

// newDecoder returns a decoder of a format that exists.
func newDecoder(t testing.TB, c format.Config) *format.Decoder {
	t.Helper()
	d, err := format.NewDecoder(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
