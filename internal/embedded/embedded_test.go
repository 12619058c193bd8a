package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/lca-stream/lca-stream/internal/embedded"
)

func start(t *testing.T, c embedded.Config) *embedded.Broker {
	t.Helper()
	b, err := embedded.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func client(t *testing.T, b *embedded.Broker) *kafka.Client {
	t.Helper()
	tr := &kafka.Transport{MetadataTTL: time.Second}
	t.Cleanup(tr.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(b.Addrs()...), Transport: tr}
}

func produce(t *testing.T, c *kafka.Client, topic string, key, value []byte) {
	t.Helper()
	res, err := c.Produce(context.Background(), &kafka.ProduceRequest{
		Topic: topic, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(kafka.Record{Key: kafka.NewBytes(key), Value: kafka.NewBytes(value)}),
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The demo may run for hours: what is held must follow the retention bound, not what was produced.
func TestMemoryIsBounded(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	b := start(t, embedded.Config{RetentionBytes: 8 << 20, SegmentBytes: 1 << 20})
	if err := b.CreateTopic("events", 1, nil); err != nil {
		t.Fatal(err)
	}
	c := client(t, b)
	before := heap()
	value := make([]byte, 512<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(value)
	const total = 160 << 20 // twenty times the bound
	for n := 0; n < total; n += len(value) {
		produce(t, c, "events", nil, value)
	}
	// One sweep after the last message brings the partition under its bound.
	for deadline := time.Now().Add(20 * time.Second); held(b, "events") > 8<<20; {
		if time.Now().After(deadline) {
			t.Fatalf("partition holds %d bytes, want at most %d", held(b, "events"), 8<<20)
		}
		time.Sleep(50 * time.Millisecond)
	}
	// 8 MiB of retention, a segment, and slices that grow by doubling: 48 MiB leaves room for the
	// garbage collector's own slack and is far below what was produced.
	if grown := heap() - before; grown > 48<<20 {
		t.Errorf("heap grew by %d MiB after %d MiB were produced", grown>>20, total>>20)
	}
	b.Close()
	c.Transport.(*kafka.Transport).CloseIdleConnections()
}

func held(b *embedded.Broker, topic string) int64 {
	return b.Cluster().PartitionInfo(topic, 0).NumBytes
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A compacted topic keeps the newest value of every key, however much was written and however old.
func TestCompactedTopicKeepsEveryKey(t *testing.T) {
	b := start(t, embedded.Config{RetentionBytes: 64 << 10, SegmentBytes: 64 << 10})
	if err := b.CreateTopic("state", 1, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	c := client(t, b)
	for round := range byte(20) {
		for key := range byte(8) {
			produce(t, c, "state", []byte{key}, bytes.Repeat([]byte{round}, 16<<10))
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for held(b, "state") > 4*8*16<<10 {
		if time.Now().After(deadline) {
			t.Fatalf("not compacted: %d bytes held", held(b, "state"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	newest := map[byte]byte{}
	// Unlike Kafka's, this broker's log start moves with compaction.
	info := b.Cluster().PartitionInfo("state", 0)
	for offset := info.LogStartOffset; offset < info.HighWatermark; {
		res, err := c.Fetch(context.Background(), &kafka.FetchRequest{
			Topic: "state", Offset: offset, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: time.Second})
		if err == nil {
			err = res.Error
		}
		if err != nil {
			t.Fatal(err)
		}
		for {
			r, err := res.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			key, _ := io.ReadAll(r.Key)
			value, _ := io.ReadAll(r.Value)
			newest[key[0]] = value[0]
			offset = r.Offset + 1
		}
	}
	for key := range byte(8) {
		if newest[key] != 19 {
			t.Errorf("key %d: newest value %d, want 19", key, newest[key])
		}
	}
}

// A record of an open transaction does not take the place of the committed one before it, because the transaction may be aborted: a model whose learner is killed
// in a transaction would have lost its checkpoint.
func TestCompactionPassesOverOpenTransactions(t *testing.T) {
	for _, second := range []bool{false, true} {
		b := start(t, embedded.Config{Transactions2: second})
		if err := b.CreateTopic("state", 1, map[string]string{"cleanup.policy": "compact"}); err != nil {
			t.Fatal(err)
		}
		writer, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.TransactionalID("writer"), kgo.DefaultProduceTopic("state"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(writer.Close)
		put := func(end kgo.TransactionEndTry, keys ...string) {
			if err := writer.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for _, key := range keys { // a batch each
				if err := writer.ProduceSync(t.Context(), kgo.KeyStringRecord(key, fmt.Sprint(end))).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if end == kgo.TryAbort && b.Compact() {
				t.Error("compacted while a transaction is open")
			}
			if err := writer.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
		put(kgo.TryCommit, "k", "last")
		put(kgo.TryAbort, "k", "last")
		if !b.Compact() {
			t.Error("not compacted, and no transaction is open")
		}
		reader, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumeTopics("state"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(reader.Close)
		found := map[string]string{}
		for len(found) < 2 && t.Context().Err() == nil {
			soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			got := reader.PollFetches(soon)
			cancel()
			if err := got.Err(); err != nil {
				t.Fatalf("%v are left: %v", found, err)
			}
			got.EachRecord(func(r *kgo.Record) { found[string(r.Key)] = string(r.Value) })
		}
		if found["k"] != "true" || found["last"] != "true" {
			t.Errorf("%v are left", found)
		}
	}
}

// With a DataDir a broker on the same port continues where the last one stopped.
func TestDataDirOutlivesTheBroker(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embedded.Config{DataDir: dir})
	if err := first.CreateTopic("events", 1, nil); err != nil {
		t.Fatal(err)
	}
	produce(t, client(t, first), "events", nil, []byte("kept"))
	first.Close()

	second := start(t, embedded.Config{DataDir: dir})
	if got := second.Cluster().PartitionInfo("events", 0); got == nil || got.HighWatermark != 1 {
		t.Fatalf("after restart: %+v, want one record", got)
	}
}

// A port in use is an error that names it, not a panic.
func TestPortInUse(t *testing.T) {
	first := start(t, embedded.Config{})
	_, port, _ := bytes.Cut([]byte(first.Addr()), []byte(":"))
	var n int
	for _, c := range port {
		n = n*10 + int(c-'0')
	}
	if second, err := embedded.Start(embedded.Config{Ports: []int{n}}); err == nil {
		second.Close()
		t.Fatalf("two brokers on port %d", n)
	}
}
