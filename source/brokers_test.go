package source_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
)

// TestBrokers is what must hold on every broker, the embedded one and the real ones.
func TestBrokers(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		for _, c := range []struct {
			name string
			test func(*testing.T, *kafkatest.Broker)
		}{
			{"transactions", testTransactions},
			{"compaction", testCompaction},
			{"codecs", testCodecs},
			{"bad batches", testBadBatches},
			{"offsets", testOffsets},
			{"gaps", testPassGaps},
			{"unknown", testUnknown},
			{"bounded", testBounded},
			{"sampled", testSampled},
			{"live", testLive},
			{"group", testGroup},
			{"static", testStaticMember},
			{"derived", testDerivedMember},
			{"foreign", testForeignMembers},
			{"joining", testLeaveWhileJoining},
			{"restart", testRestart}, // the last: it takes the broker down
		} {
			t.Run(c.name, func(t *testing.T) { c.test(t, b) })
		}
	})
}

func testTransactions(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "transactions", 1, nil)
	plain := producer(t, b.Addrs())
	one := producer(t, b.Addrs(), kgo.TransactionalID("one"))
	two := producer(t, b.Addrs(), kgo.TransactionalID("two"))
	r := func(v string) *kgo.Record { return record("transactions", 0, "", v) }
	write(t, plain, r("plain 1"))
	writeTxn(t, one, kgo.TryAbort, r("aborted 1"))
	writeTxn(t, one, kgo.TryCommit, r("committed 1"))
	writeTxn(t, one, kgo.TryAbort, r("aborted 2"))
	if err := two.BeginTransaction(); err != nil { // an open transaction around those of others
		t.Fatal(err)
	}
	opened := r("aborted 3")
	write(t, two, opened)
	writeTxn(t, one, kgo.TryCommit, r("committed 2"))
	write(t, plain, r("plain 2"))

	p := source.Partition{Topic: "transactions"}
	config := source.FetcherConfig{Cluster: open(t, b.Addrs()...), Partition: p, MaxWait: 50 * time.Millisecond}
	f := source.NewFetcher(config)
	var values []string
	var last source.Fetched
	for last.Next < opened.Offset { // the broker may still be writing markers
		more, now := fetchAll(t, f)
		values, last = append(values, more...), now
	}
	if diff := cmp.Diff([]string{"plain 1", "committed 1"}, values); diff != "" {
		t.Errorf("while a transaction is open (-want +got):\n%s", diff)
	}
	if last.Next != opened.Offset || last.LastStable != opened.Offset || last.HighWatermark <= opened.Offset {
		t.Errorf("next %d, stable %d, high %d; want the open transaction at %d", last.Next, last.LastStable, last.HighWatermark, opened.Offset)
	}
	if err := two.EndTransaction(within(t), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	values, _ = fetchEnd(t, f)
	if diff := cmp.Diff([]string{"committed 2", "plain 2"}, values); diff != "" {
		t.Errorf("after it was aborted (-want +got):\n%s", diff)
	}

	config.ReadUncommitted = true
	values, all := fetchEnd(t, source.NewFetcher(config))
	if want := []string{"plain 1", "aborted 1", "committed 1", "aborted 2", "aborted 3", "committed 2", "plain 2"}; !cmp.Equal(want, values) {
		t.Errorf("read_uncommitted (-want +got):\n%s", cmp.Diff(want, values))
	}
	config.ReadUncommitted = false
	_, committed := fetchEnd(t, source.NewFetcher(config))
	if len(committed) != 4 {
		t.Errorf("read_committed: offsets %v", committed)
	}
	// Every place to begin at shows the committed records behind it, no more and no less, wherever the broker cuts off
	// its responses: after one batch, or two.
	for at := range all[len(all)-1] + 2 {
		var want []int64
		for _, offset := range committed {
			if offset >= at {
				want = append(want, offset)
			}
		}
		for _, config.MaxBytes = range []int{0, 1, 160} {
			config.Offset = at
			if _, got := fetchEnd(t, source.NewFetcher(config)); !cmp.Equal(want, got) {
				t.Errorf("from offset %d, %d bytes at a time: offsets %v, want %v", at, config.MaxBytes, got, want)
			}
		}
	}
}

// testCompaction reads what the cleaner leaves: empty batches of idempotent producers (compressed
// ones have made readers panic, segmentio/kafka-go#1416), markers whose records are gone.
func testCompaction(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "compaction", 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01",
		"max.compaction.lag.ms": "500", "delete.retention.ms": "100",
	})
	r := func(k, v string) *kgo.Record { return record("compaction", 0, k, v) }
	for i := range 4 { // four producers whose keys are all overwritten
		p := producer(t, b.Addrs(), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
		write(t, p, r("a", fmt.Sprintf("old a%d", i)), r("b", fmt.Sprintf("old b%d", i)))
	}
	txn := producer(t, b.Addrs(), kgo.TransactionalID("compaction"))
	writeTxn(t, txn, kgo.TryAbort, r("a", "aborted"))
	writeTxn(t, txn, kgo.TryCommit, r("c", "kept c"))
	writeTxn(t, txn, kgo.TryAbort, r("c", "aborted too"))
	plain := producer(t, b.Addrs())
	write(t, plain, r("a", "kept a"), r("b", "kept b"))

	config := source.FetcherConfig{Cluster: open(t, b.Addrs()...), Partition: source.Partition{Topic: "compaction"}, MaxWait: 50 * time.Millisecond}
	config.ReadUncommitted = true
	want := []string{"kept c", "kept a", "kept b"}
	for ctx := within(t); ; { // until the cleaner has been there; new records roll the segment
		if b.Kind == kafkatest.Embedded {
			b.Embedded().Cluster().Compact()
		}
		starts, err := source.ListOffsets(ctx, config.Cluster, []source.Partition{config.Partition}, source.Earliest)
		if err != nil {
			t.Fatal(err)
		}
		config.Offset = starts[config.Partition]
		raw, _ := fetchEnd(t, source.NewFetcher(config))
		if !strings.Contains(strings.Join(raw, " "), "old") {
			break
		}
		write(t, plain, r("tick", "tick"))
		time.Sleep(200 * time.Millisecond)
	}
	config.ReadUncommitted = false
	values, _ := fetchEnd(t, source.NewFetcher(config))
	var kept []string
	for _, v := range values {
		if v != "tick" {
			kept = append(kept, v)
		}
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("after compaction (-want +got):\n%s", diff)
	}
}

func testCodecs(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "codecs", 1, nil)
	var want []string
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		p := producer(t, b.Addrs(), kgo.ProducerBatchCompression(codec))
		var recs []*kgo.Record
		for i := range 20 {
			v := strings.Repeat(fmt.Sprintf("codec %v, %d; ", codec, i), 50)
			want = append(want, v)
			recs = append(recs, record("codecs", 0, "k", v))
		}
		write(t, p, recs...)
	}
	// One byte at a time is asked for, and a batch at a time comes.
	f := source.NewFetcher(source.FetcherConfig{Cluster: open(t, b.Addrs()...), Partition: source.Partition{Topic: "codecs"}, MaxBytes: 1})
	values, _ := fetchEnd(t, f)
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func testOffsets(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "offsets", 2, map[string]string{"retention.ms": "-1"}) // the records are of 1970
	c, ctx := open(t, b.Addrs()...), within(t)
	plain := producer(t, b.Addrs())
	for i := range 5 {
		r := record("offsets", 0, "", "v")
		r.Timestamp = time.UnixMilli(int64(1000 * i))
		write(t, plain, r)
	}
	txn := producer(t, b.Addrs(), kgo.TransactionalID("offsets"))
	if err := txn.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	open := record("offsets", 0, "", "open")
	open.Timestamp = time.UnixMilli(9000)
	write(t, txn, open)

	parts, err := source.Partitions(ctx, c, "offsets")
	zero, one := source.Partition{Topic: "offsets", ID: 0}, source.Partition{Topic: "offsets", ID: 1}
	if want := []source.Partition{zero, one}; err != nil || !cmp.Equal(want, parts) {
		t.Fatalf("partitions %v, %v; want %v", parts, err, want)
	}
	for _, q := range []struct {
		name string
		at   source.At
		want source.Offsets
	}{
		{"earliest", source.Earliest, source.Offsets{zero: 0, one: 0}},
		{"latest", source.Latest, source.Offsets{zero: 6, one: 0}},
		{"latest stable", source.LatestStable, source.Offsets{zero: 5, one: 0}},
		{"a record's time", source.AtTime(time.UnixMilli(2000)), source.Offsets{zero: 2, one: 0}},
		{"between two", source.AtTime(time.UnixMilli(2001)), source.Offsets{zero: 3, one: 0}},
		{"before all", source.AtTime(time.UnixMilli(0)), source.Offsets{zero: 0, one: 0}},
		{"before 1970", source.AtTime(time.UnixMilli(-5000)), source.Offsets{zero: 0, one: 0}},
		{"after all", source.AtTime(time.UnixMilli(1e12)), source.Offsets{zero: 6, one: 0}}, // Kafka says -1
	} {
		got, err := source.ListOffsets(ctx, c, parts, q.at)
		if err != nil || !cmp.Equal(q.want, got) {
			t.Errorf("%s: %v, %v; want %v", q.name, got, err, q.want)
		}
	}
	if err := txn.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	for ends := (source.Offsets{zero: 7, one: 0}); ; time.Sleep(10 * time.Millisecond) { // the coordinator answers before the marker is there
		if got, err := source.ListOffsets(ctx, c, parts, source.LatestStable); err != nil {
			t.Fatal(err)
		} else if cmp.Equal(ends, got) {
			break
		}
	}

	nothing := source.Position{Next: -1, Epoch: -1}
	none := map[source.Partition]source.Position{zero: nothing, one: nothing}
	if got, err := source.Committed(ctx, c, "unused", parts); err != nil || !cmp.Equal(none, got) {
		t.Errorf("committed by an unused group: %v, %v; want %v", got, err, none)
	}
	response, err := c.Client().OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: "used", GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{"offsets": {{Partition: 0, Offset: 3, Metadata: "metadata"}}},
	})
	if err != nil || response.Topics["offsets"][0].Error != nil {
		t.Fatal(err, response)
	}
	want := map[source.Partition]source.Position{zero: {Next: 3, Metadata: "metadata"}, one: nothing} // kafka-go commits leader epoch 0
	if got, err := source.Committed(ctx, c, "used", parts); err != nil || !cmp.Equal(want, got) {
		t.Errorf("committed: %v, %v; want %v", got, err, want)
	}
	testOutOfRange(t, b)
}

func testOutOfRange(t *testing.T, b *kafkatest.Broker) {
	f := source.NewFetcher(source.FetcherConfig{Cluster: open(t, b.Addrs()...), Partition: source.Partition{Topic: "offsets"}, Offset: 100})
	_, err := f.Fetch(within(t))
	var beyond *source.OffsetError
	if !errors.As(err, &beyond) {
		t.Fatalf("got %v, want an OffsetError", err)
	}
	if beyond.Offset != 100 || beyond.Start != 0 || beyond.End != 7 || !strings.Contains(err.Error(), "created again") {
		t.Errorf("got %v (%+v)", err, beyond)
	}
}

// testPassGaps deletes records before they were read: of a fetcher that has read nothing, of one that has read some, and of both up to the end.
func testPassGaps(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "gaps", 1, nil)
	p := producer(t, b.Addrs())
	for i := range 9 {
		write(t, p, record("gaps", 0, "", fmt.Sprint(i)))
	}
	config := source.FetcherConfig{Cluster: open(t, b.Addrs()...), Partition: source.Partition{Topic: "gaps"}, MaxWait: 50 * time.Millisecond}
	strict := source.NewFetcher(config)
	config.PassGaps = true
	fresh, reader := source.NewFetcher(config), source.NewFetcher(config)
	fetchEnd(t, reader)
	for i := 9; i < 12; i++ {
		write(t, p, record("gaps", 0, "", fmt.Sprint(i)))
	}
	b.DeleteRecords(t, "gaps", map[int32]int64{0: 10})
	var gap *source.OffsetError
	if _, err := strict.Fetch(within(t)); !errors.As(err, &gap) || gap.Offset != 0 || gap.Start != 10 {
		t.Errorf("without PassGaps: %v", err)
	}
	for _, f := range []*source.Fetcher{fresh, reader} {
		if values, _ := fetchEnd(t, f); !cmp.Equal([]string{"10", "11"}, values) {
			t.Errorf("read %q", values)
		}
	}
	write(t, p, record("gaps", 0, "", "12"))
	b.DeleteRecords(t, "gaps", map[int32]int64{0: 13})
	if values, _ := fetchEnd(t, reader); len(values) > 0 || reader.Next() != 13 {
		t.Errorf("read %q to %d where all was deleted", values, reader.Next())
	}
	config.Offset = 100
	if _, err := source.NewFetcher(config).Fetch(within(t)); !errors.As(err, &gap) || gap.End != 13 {
		t.Errorf("behind the end: %v", err)
	}
}

func testUnknown(t *testing.T, b *kafkatest.Broker) {
	c, ctx := open(t, b.Addrs()...), within(t)
	_, err := source.Partitions(ctx, c, "nothing")
	if !errors.Is(err, kafka.UnknownTopicOrPartition) || !strings.Contains(err.Error(), `"nothing"`) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("an unknown topic: %v", err)
	}
	b.CreateTopic(t, "known", 2, nil)
	_, err = source.OpenKafka(ctx, source.KafkaConfig{Cluster: c, Start: source.Offsets{{Topic: "known", ID: 2}: 0}})
	if err == nil || !strings.Contains(err.Error(), "known/2 does not exist") || !strings.Contains(err.Error(), "2 partitions") {
		t.Errorf("an unknown partition: %v", err)
	}
}

// testRestart: a fetcher and a member live through a broker that dies and comes back.
func testRestart(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "restart", 1, nil)
	c := open(t, b.Addrs()...)
	w := join(t, c, source.GroupConfig{Topics: []string{"restart"}, Group: "restart", SessionTimeout: 6 * time.Second})
	gen := w.next(t)
	p := producer(t, b.Addrs())
	write(t, p, record("restart", 0, "", "before"))
	f := source.NewFetcher(source.FetcherConfig{Cluster: c, Partition: source.Partition{Topic: "restart"}, MaxWait: 50 * time.Millisecond})
	values, _ := fetchEnd(t, f)
	b.Kill()
	after := make(chan string, 1)
	go func() { // while the broker is down, and until the next record is there
		defer close(after)
		for {
			got, err := f.Fetch(t.Context()) // on a busy machine a broker takes minutes to start
			if err != nil {
				t.Error(err)
				return
			}
			if len(got.Records) > 0 {
				after <- string(got.Records[0].Value)
				return
			}
		}
	}()
	b.Restart()
	write(t, p, record("restart", 0, "", "after"))
	select {
	case value := <-after:
		values = append(values, value)
	case <-within(t).Done():
		t.Fatal("no record since the broker is back")
	}
	if diff := cmp.Diff([]string{"before", "after"}, values); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for gen.Context().Err() != nil {
		gen = w.next(t)
	}
	if len(gen.Partitions) != 1 {
		t.Errorf("the member has %v", gen.Partitions)
	}
	w.leave(t)
}
