package source_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
)

// The memory of a batch is used again once it is released, and not before: batches that are held back
// keep their bytes however much is read after them.
func TestReleasedMemoryIsUsedAgain(t *testing.T) {
	broker := kafkatest.Start(t, kafkatest.Embedded)
	broker.CreateTopic(t, "reuse", 1, nil)
	const messages, size = 400, 20_000
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, size/2) }
	p := producer(t, broker.Addrs())
	for i := range messages {
		write(t, p, &kgo.Record{Topic: "reuse", Key: fmt.Append(nil, i), Value: value(i), Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, i)}}})
	}
	k, err := source.OpenKafka(within(t), source.KafkaConfig{
		Cluster: open(t, broker.Addrs()...), Start: source.Offsets{{Topic: "reuse"}: 0}, GatherBytes: 300_000, GatherWait: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	check := func(b source.Batch) {
		t.Helper()
		for _, m := range b.Messages {
			n := fmt.Append(nil, m.Offset)
			if !bytes.Equal(m.Value, value(int(m.Offset))) || !bytes.Equal(m.Key, n) || len(m.Headers) != 1 || !bytes.Equal(m.Headers[0].Value, n) {
				t.Fatalf("message %d has been written over", m.Offset)
			}
		}
	}
	var held []source.Batch
	pages, again := map[uintptr]bool{}, 0
	for next := int64(0); next < messages; {
		b, err := k.Read(within(t))
		if err != nil {
			t.Fatal(err)
		}
		check(b)
		for _, m := range b.Messages {
			if m.Offset != next {
				t.Fatalf("message %d where %d comes", m.Offset, next)
			}
			next++
			at := uintptr(unsafe.Pointer(unsafe.SliceData(m.Value)))
			if pages[at] {
				again++
			}
			pages[at] = true
		}
		if len(held) < 3 {
			held = append(held, b)
			continue
		}
		b.Release()
	}
	for _, b := range held {
		check(b)
		b.Release()
	}
	if again < messages/4 {
		t.Errorf("%d of %d messages lay where another had lain", again, messages)
	}
}
