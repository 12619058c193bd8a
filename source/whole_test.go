package source_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source"
)

// With a Rate a batch has what the broker has when it is asked for, and waits for nothing else: GatherWait would be an hour.
func TestBatchHasWhatTheBrokerHas(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "whole", 1, nil)
	p, out := source.Partition{Topic: "whole"}, producer(t, b.Addrs())
	produce := func(n int) {
		for range n {
			write(t, out, record("whole", 0, "k", strings.Repeat("x", 3000)))
		}
	}
	produce(100) // more than one response has at first
	k, err := source.OpenKafka(within(t), source.KafkaConfig{
		Cluster: open(t, b.Addrs()...), Start: source.Offsets{p: 0}, GatherWait: time.Hour, Rate: source.NewRate(1000),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	read := func(want int) {
		t.Helper()
		batch, err := k.Read(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(batch.Messages); n != want {
			t.Errorf("%d messages, want %d", n, want)
		}
		batch.Release()
	}
	read(100)
	produce(1)
	for ctx := within(t); k.Lag()[p].High < 101; { // it is read ahead, and stale when the others are there
		if ctx.Err() != nil {
			t.Fatal("it was not read ahead")
		}
	}
	produce(49)
	read(50)
	produce(1)
	read(1)
}

// A batch of several parts has as many times the messages of one, and what is read does not depend on it.
func TestBatchTakesSeveralParts(t *testing.T) {
	const messages, size = 200, 50_000
	b := kafkatest.Start(t, kafkatest.Embedded)
	b.CreateTopic(t, "parts", 1, nil)
	out := producer(t, b.Addrs())
	for range messages {
		write(t, out, record("parts", 0, "k", strings.Repeat("x", size)))
	}
	first := map[int]int{}
	for _, parts := range []int{0, 1, 2} {
		k, err := source.OpenKafka(within(t), source.KafkaConfig{
			Cluster: open(t, b.Addrs()...), Start: source.Offsets{{Topic: "parts"}: 0}, GatherWait: time.Hour, Rate: source.NewRate(1000),
			Memory: source.NewMemory(1, 1), GatherParts: parts,
		})
		if err != nil {
			t.Fatal(err)
		}
		for read := 0; read < messages; {
			batch, err := k.Read(within(t))
			if err != nil {
				t.Fatal(err)
			}
			if read == 0 {
				first[parts] = len(batch.Messages)
			}
			read += len(batch.Messages)
			batch.Release()
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if one := first[1]; first[0] != one || first[2] < 2*one-1 || first[2] > 2*one+1 || one >= messages/2 {
		t.Errorf("first batches of %v messages, by parts", first)
	}
}
