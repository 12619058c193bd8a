package source_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// testBounded: a range with an end is read in one order, whatever the sizes of responses and
// batches, and ends exactly where it was told to, although markers and more records follow.
func testBounded(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "bounded", 3, nil)
	plain, txn := producer(t, b.Addrs()), producer(t, b.Addrs(), kgo.TransactionalID("bounded"))
	for i := range 30 {
		write(t, plain, record("bounded", 0, "", fmt.Sprintf("zero %d", i)))
		if i < 7 {
			end := kgo.TryCommit
			if i%3 == 1 {
				end = kgo.TryAbort
			}
			writeTxn(t, txn, end, record("bounded", 1, "", fmt.Sprintf("one %d", i)))
		}
	}
	start, end := make(source.Offsets), make(source.Offsets)
	for id, offsets := range [][2]int64{{3, 20}, {0, 12}, {0, 0}} { // 12 lies behind the marker of "one 5"
		p := source.Partition{Topic: "bounded", ID: int32(id)}
		start[p], end[p] = offsets[0], offsets[1]
	}
	var order []string
	for _, sizes := range []struct{ gather, memory int }{{1, 1}, {64, 1}, {1000, 1 << 30}, {0, 1 << 30}} {
		k, err := source.OpenKafka(within(t), source.KafkaConfig{
			Cluster: open(t, b.Addrs()...), Start: start, End: end,
			GatherBytes: sizes.gather, Memory: source.NewMemory(int64(sizes.memory), 1), Claim: source.Claim{Generation: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		values, got, claim := readAll(t, k)
		want := map[int32][]string{1: {"one 0", "one 2", "one 3", "one 5"}}
		for i := 3; i < 20; i++ {
			want[0] = append(want[0], fmt.Sprintf("zero %d", i))
		}
		if diff := cmp.Diff(want, values); diff != "" {
			t.Errorf("%+v: values (-want +got):\n%s", sizes, diff)
		}
		if order == nil {
			order = got
		}
		if diff := cmp.Diff(order, got); diff != "" {
			t.Errorf("%+v: another order (-first +this):\n%s", sizes, diff)
		}
		if !cmp.Equal(end, claim.Next) || claim.Generation != -1 {
			t.Errorf("%+v: last claim %+v, want next %v", sizes, claim, end)
		}
		if _, err := k.Read(within(t)); !errors.Is(err, source.ErrEnd) {
			t.Errorf("%+v: read after the end: %v", sizes, err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
	if strings.Join(order[:5], " ") != "0@3 1@0 0@4 1@4 0@5" {
		t.Errorf("partitions do not take turns: %v", order[:5])
	}
}

// testLive: an endless source gives what comes, tells its lag, and starts again where Seek says.
func testLive(t *testing.T, b *kafkatest.Broker) {
	b.CreateTopic(t, "live", 2, nil)
	zero, one := source.Partition{Topic: "live", ID: 0}, source.Partition{Topic: "live", ID: 1}
	plain := producer(t, b.Addrs())
	r := record("live", 0, "key", "value")
	r.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("x")}, {Key: "null"}}
	r.Timestamp = time.UnixMilli(1700000000123)
	write(t, plain, r)
	k, err := source.OpenKafka(within(t), source.KafkaConfig{
		Cluster: open(t, b.Addrs()...), Start: source.Offsets{zero: 0, one: 0}, GatherWait: time.Millisecond,
		Claim: source.Claim{Group: "g", Member: "m", InstanceID: "i", Generation: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	batch, err := k.Read(within(t))
	if err != nil {
		t.Fatal(err)
	}
	want := source.Batch{
		Messages: []source.Message{{
			Partition: zero, Offset: 0, Time: time.UnixMilli(1700000000123), Key: []byte("key"), Value: []byte("value"),
			Headers: []source.Header{{Key: "h", Value: []byte("x")}, {Key: "null"}},
		}},
		Claim:  source.Claim{Group: "g", Member: "m", InstanceID: "i", Generation: 4, Next: source.Offsets{zero: 1, one: 0}},
		Memory: batch.Memory,
	}
	if least, most := int64(len("keyvalue")), int64(16<<10); batch.Memory < least || batch.Memory > most {
		t.Errorf("one small message takes %d bytes, want between %d and %d", batch.Memory, least, most)
	}
	if diff := cmp.Diff(want, batch, cmpopts.IgnoreUnexported(source.Batch{}), cmpopts.IgnoreFields(source.Claim{}, "Epochs")); diff != "" {
		t.Errorf("first batch (-want +got):\n%s", diff)
	}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	if _, err := k.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read of nothing: %v, want the context's error", err)
	}
	cancel()

	for i := range 10 {
		write(t, plain, record("live", 1, "", fmt.Sprint(i)))
	}
	if got := collect(t, k, 10); strings.Join(got, "") != "0123456789" {
		t.Errorf("got %v", got)
	}
	if got, want := k.Lag()[one], (source.Lag{High: 10, Stable: 10, Next: 10}); got != want {
		t.Errorf("lag %+v, want %+v", got, want)
	}
	if err := k.Seek(within(t), source.Offsets{one: 7}); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, k, 3); strings.Join(got, "") != "789" {
		t.Errorf("after Seek: %v", got)
	}
	if err := k.Seek(within(t), source.Offsets{{Topic: "live", ID: 5}: 0}); err == nil {
		t.Error("Seek of a partition that is not read: no error")
	}
}

// collect reads n messages.
func collect(t *testing.T, k *source.Kafka, n int) (values []string) {
	t.Helper()
	for len(values) < n {
		b, err := k.Read(within(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range b.Messages {
			values = append(values, string(m.Value))
		}
	}
	return values
}

// stream is a value as producers send it: an Arrow stream with one column.
func stream(t testing.TB, rows ...float64) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float64}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	builder.Field(0).(*array.Float64Builder).AppendValues(rows, nil)
	rec := builder.NewRecord()
	defer rec.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestKafkaDecodes: what becomes of good values, bad values, null values and large ones.
func TestKafkaDecodes(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "decode", 1, map[string]string{"max.message.bytes": "10000000"})
	plain := producer(t, b.Addrs(), kgo.ProducerBatchMaxBytes(5000000))
	bare := func(v []byte) *kgo.Record { return &kgo.Record{Topic: "decode", Value: v} }
	good := bare(stream(t, 1, 2, 3))
	good.Headers = []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/vnd.apache.arrow.stream")}}
	write(t, plain, good)                            // 0
	write(t, plain, bare(nil), bare([]byte("\x01"))) // 1, 2
	write(t, plain, bare(make([]byte, 200000)))      // 3: larger than a message may be
	write(t, plain, bare(make([]byte, 900000)))      // 4: larger than a batch may be
	write(t, plain, bare(stream(t, 4)), bare(nil))   // 5, 6
	p := source.Partition{Topic: "decode"}
	k, err := source.OpenKafka(within(t), source.KafkaConfig{
		Cluster: open(t, b.Addrs()...), Start: source.Offsets{p: 0}, End: source.Offsets{p: 7},
		Decoder: newDecoder(t, format.Config{MaxBytes: 100000}), MaxMessageBytes: 100000,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var got []string
	for {
		b, err := k.Read(within(t))
		if errors.Is(err, source.ErrEnd) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range b.Messages {
			switch {
			case m.Err != nil:
				got = append(got, fmt.Sprintf("%d: %s", m.Offset, m.Err.Code))
			case m.Tombstone():
				got = append(got, fmt.Sprintf("%d: null", m.Offset))
			default:
				got = append(got, fmt.Sprintf("%d: %d rows", m.Offset, m.Record.NumRows()))
			}
		}
		if b.Claim.Next[p] == 7 && b.Rows() == 0 {
			t.Error("no rows in the last batch")
		}
		b.Release()
	}
	want := []string{"0: 3 rows", "1: null", "2: format_unknown", "3: too_large", "4: too_large", "5: 1 rows", "6: null"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
