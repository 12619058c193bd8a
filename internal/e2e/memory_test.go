//go:build unix

package e2e_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// memoryBoundMiB is what a process may take for its input at default settings, on a machine with room for much
// more: a limit is a ceiling, not a budget to fill.
const memoryBoundMiB = 256

// outputOnDisk is how many times the bytes of its input the output of messages of one JSON row may take on disk.
const outputOnDisk = 3

// jsonColumns are the features of jsonRows.
const jsonColumns = "[f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11]"

// jsonRows writes n messages of one JSON row of 12 numbers, about 130 bytes, over all partitions.
func (s *stream) jsonRows(messages, partitions int) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	rng := rand.New(rand.NewPCG(7, 12))
	for i := range messages {
		var b strings.Builder
		for k := range 12 {
			fmt.Fprintf(&b, `%c"f%d":%.3f`, "{,"[min(k, 1)], k, float64(rng.IntN(2)*6)+rng.NormFloat64())
		}
		b.WriteByte('}')
		client.Produce(s.t.Context(), &kgo.Record{Topic: s.topic("in"), Partition: int32(i % partitions), Value: []byte(b.String())}, func(_ *kgo.Record, err error) {
			if err != nil {
				s.t.Error(err)
			}
		})
	}
	if err := client.Flush(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// A backlog of small messages takes little memory in any number of partitions: what is read ahead, and what
// is being worked on, have one bound for the process, and garbage is collected the sooner the more there is live. Their
// output, one message for each, is small on disk.
func TestMemoryOfSmallMessages(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	for _, c := range []struct{ messages, partitions, most int }{
		{300_000, 12, 128}, {100_000, 1, 128}, {100_000, 32, memoryBoundMiB}, {100_000, 100, memoryBoundMiB},
	} {
		if testing.Short() {
			if c.messages /= 3; c.partitions == 32 { // between the two others
				continue
			}
		}
		t.Run(fmt.Sprintf("%d messages in %d partitions", c.messages, c.partitions), func(t *testing.T) {
			s := newStream(t, b, fmt.Sprintf("small-%d", c.partitions), settings{partitions: c.partitions, features: jsonColumns})
			s.jsonRows(c.messages, c.partitions)
			run := s.program("run", "--log-level", "info")
			start := time.Now()
			s.await(s.name, int64(c.messages), run)
			took, peak := time.Since(start), testtools.PeakMiB(t, run.Pid())
			run.stop()
			if peak > c.most {
				t.Errorf("%d MiB at the peak, more than %d", peak, c.most)
			}
			in, out := b.LogBytes(t, s.topic("in")), b.LogBytes(t, s.topic("out"))
			if ratio := float64(out) / float64(in); c.partitions == 1 && ratio > outputOnDisk {
				t.Errorf("the output takes %d bytes on disk, %.2f times its input, more than %d times", out, ratio, outputOnDisk)
			}
			t.Logf("peak memory %d MiB, %.0f messages per second; %d bytes on disk in, %d out", peak, float64(c.messages)/took.Seconds(), in, out)
		})
	}
}

// smallBomb is a message of some kilobytes with nearly 2^20 rows of 7 numbers: it decodes to 52 MiB, and its output is as large as messages can be.
func smallBomb(t *testing.T) []byte {
	t.Helper()
	fields := make([]arrow.Field, 7)
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprintf("c%d", i), Type: arrow.PrimitiveTypes.Float64}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	column := make([]float64, 15<<16)
	for i := range fields {
		for k := range column {
			column[k] = float64(k % (2 + i)) // repeats every 840 rows, so that what it whitens to compresses as well
		}
		b.Field(i).(*array.Float64Builder).AppendValues(column, nil)
	}
	rec := b.NewRecord()
	defer rec.Release()
	var value bytes.Buffer
	w := ipc.NewWriter(&value, ipc.WithSchema(rec.Schema()), ipc.WithZstd())
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return value.Bytes()
}

// Messages that decode to thousands of times their bytes are learnt from and whitened within memory.limit.
func TestMemoryOfLargeMessages(t *testing.T) {
	const partitions = 2
	messages := int64(4)
	if testing.Short() {
		messages = 3 // one partition has another to read ahead
	}
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "large", settings{partitions: partitions, features: "[c0, c1, c2, c3, c4, c5, c6]", more: fmt.Sprintf("memory: {limit: %dMiB}", memoryBoundMiB)})
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	// A snapshot for every 500 rows would be two thousand a message.
	usual := strings.NewReplacer("every_rows: 500,", "every_rows: 200000,", "neighbours: 500", "neighbours: 50")
	if err := os.WriteFile(s.file, []byte(usual.Replace(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
	value := smallBomb(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range messages {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: s.topic("in"), Partition: int32(i % partitions), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	run := s.program("run", "--log-level", "info")
	s.await(s.name, messages, run)
	s.await(s.name+".learn", messages, run)
	peak := testtools.PeakMiB(t, run.Pid())
	run.stop()
	if peak > memoryBoundMiB {
		t.Errorf("%d MiB at the peak, more than memory.limit, %d", peak, memoryBoundMiB)
	}
	if ends := b.ListOffsets(t, s.topic("dead"), -1, 1); ends[0] != 0 {
		t.Errorf("%d messages were set aside", ends[0])
	}
	t.Logf("peak memory %d MiB with messages of %d bytes", peak, len(value))
}
