package source

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/recordbatch"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// What lanes and readers may hold together does not grow with their number, until each has the least there is.
func TestPartsAreOfOneWhole(t *testing.T) {
	for _, limit := range []int64{1, 256 << 20, 24 << 30} {
		m := NewMemory(limit, 2)
		if m.unit < leastUnit || m.unit > mostUnit {
			t.Errorf("limit %d: a unit of %d", limit, m.unit)
		}
		for n := range 120 {
			m.join(n)
			if got := int64(4 * m.lanes * m.lane()); m.lane() > leastPart && got > m.unit/2 {
				t.Errorf("%d lanes may hold %d of %d", m.lanes, got, m.unit)
			}
			if got := int64(m.readers * m.reader()); m.reader() > leastGather && got > m.unit/4 {
				t.Errorf("%d readers may hold %d of %d", m.readers, got, m.unit)
			}
		}
		for n := range 120 {
			m.leave(n)
		}
		if m.lanes != 0 || m.readers != 0 {
			t.Errorf("%d lanes and %d readers are left", m.lanes, m.readers)
		}
	}
}

// idle fails the test if something is still held that should have been given back.
func (m *Memory) idle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for name, r := range map[string]room{"batches": m.batches, "messages": m.messages, "outputs": m.made} {
		if err := r.Acquire(ctx, r.all); err != nil {
			t.Errorf("memory for large %s was not given back: %v", name, err)
			continue
		}
		r.Release(r.all)
	}
}

// readers reads partitions 0 to n-1 of a topic as a process does, each with a reader of its own and one more for
// all, and counts the messages of each reader.
type readers struct {
	t      *testing.T
	broker *kafkatest.Broker
	topic  string
	memory *Memory
}

func (r readers) open(gather int, partitions ...int32) *Kafka {
	r.t.Helper()
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: r.broker.Addrs(), ClientID: "memory-test"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	start := Offsets{}
	for _, id := range partitions {
		start[Partition{Topic: r.topic, ID: id}] = 0
	}
	k, err := OpenKafka(r.t.Context(), KafkaConfig{
		Cluster: c, Start: start, Decoder: newDecoder(r.t, format.Config{}), Memory: r.memory, GatherBytes: gather, GatherWait: time.Millisecond,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

// read counts messages until there are enough, and calls each with every batch before it is released.
func (r readers) read(ctx context.Context, k *Kafka, messages int, each func(Batch)) error {
	for n := 0; n < messages; {
		b, err := k.Read(ctx)
		if err != nil {
			return fmt.Errorf("after %d of %d messages: %w", n, messages, err)
		}
		for _, m := range b.Messages {
			if m.Err != nil {
				return m.Err
			}
		}
		n += len(b.Messages)
		each(b)
		b.Release()
	}
	return nil
}

func (r readers) produce(partitions, each int, value []byte, codec kgo.CompressionCodec) {
	r.t.Helper()
	r.broker.CreateTopic(r.t, r.topic, partitions, map[string]string{"max.message.bytes": "20971520"})
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(20<<20))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	for id := range partitions {
		for range each {
			if err := client.ProduceSync(r.t.Context(), &kgo.Record{Topic: r.topic, Partition: int32(id), Value: value}).FirstErr(); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// Batches and messages that are larger than any reader's part are read by all readers of a process, whatever they
// wait for of one another, and all memory is given back.
func TestLargeThingsOfManyReaders(t *testing.T) {
	const partitions, each = 6, 4
	rows := `[` + strings.TrimSuffix(strings.Repeat(`{"a":1.5,"b":2.5},`, 60_000), ",") + `]` // 1 MB, and more when decoded
	for _, c := range []struct {
		name  string
		value []byte
		codec kgo.CompressionCodec
	}{
		{"large batches", []byte(`{"x":1,"text":"` + strings.Repeat("x", 3<<20) + `"}`), kgo.NoCompression()},
		{"batches that decompress to much", []byte(`{"x":1,"text":"` + strings.Repeat("x", 3<<20) + `"}`), kgo.ZstdCompression()},
		{"large messages", []byte(rows), kgo.Lz4Compression()},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := readers{t: t, broker: kafkatest.Start(t, kafkatest.Embedded), topic: "large", memory: NewMemory(1, 1)}
			r.produce(partitions, each, c.value, c.codec)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var wait sync.WaitGroup
			run := func(k *Kafka, messages int) {
				wait.Go(func() {
					defer func() { _ = k.Close() }()
					if err := r.read(ctx, k, messages, func(b Batch) {
						if err := b.Reserve(ctx, 2*b.Memory); err != nil { // as a stage does
							t.Error(err)
						}
					}); err != nil {
						t.Error(err)
					}
				})
			}
			for id := range int32(partitions) {
				run(r.open(2<<20, id), each)
			}
			run(r.open(64<<10, 0, 1, 2, 3, 4, 5), partitions*each)
			wait.Wait()
			r.memory.idle(t)
		})
	}
}

// What is made of batches has one bound for all readers: a batch waits until others are released.
func TestBatchesWaitForWhatIsMadeOfThem(t *testing.T) {
	m := NewMemory(1, 1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	batch := func() Batch {
		return Batch{space: &space{home: &Kafka{config: KafkaConfig{Memory: m}}}}
	}
	one, two, three := batch(), batch(), batch()
	if err := errors.Join(one.Reserve(t.Context(), m.unit/2), two.Reserve(t.Context(), m.unit/2)); err != nil {
		t.Fatal(err)
	}
	if err := three.Reserve(ended, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("no room is left: %v", err)
	}
	one.Release()
	two.Release()
	if err := three.Reserve(t.Context(), 100*m.unit); err != nil { // one alone always fits
		t.Fatal(err)
	}
	if err := three.Reserve(t.Context(), 1); err != nil { // in place of what it had
		t.Fatal(err)
	}
	three.Release()
	m.idle(t)
	file := Batch{}
	if err := file.Reserve(ended, 1<<40); err != nil {
		t.Errorf("a file's batch waits: %v", err)
	}
}

// A lane holds no more of a response than its part and as much besides, before it has waited for room.
func TestResponsesAreBoundedByTheirPart(t *testing.T) {
	m := NewMemory(1, 1)
	m.join(100)
	f := NewFetcher(FetcherConfig{Partition: Partition{Topic: "events"}})
	f.share(m, false)
	if p := f.part(); p.response+p.overhead > 2*m.lane() {
		t.Errorf("%d bytes of a response and %d besides, where a lane has %d", p.response, p.overhead, m.lane())
	}
	f.usual = 1 << 20
	if err := f.foresee(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := f.part(); p.response != 1<<20 {
		t.Errorf("%d bytes are asked for after a batch of a megabyte", p.response)
	}
	f.grant.back(0)
	m.idle(t)
}

// Lanes whose compressed batches take a few times their part are read next to one another: each waits for about as much as its batch takes, not for what
// the largest batch might. A backlog of small messages in a hundred partitions was read one partition after the other.
func TestCompressedBatchesAreReadTogether(t *testing.T) {
	const partitions, each = 16, 1500
	r := readers{t: t, broker: kafkatest.Start(t, kafkatest.Embedded), topic: "compressed", memory: NewMemory(1, 1)}
	r.produce(partitions, 0, nil, kgo.NoCompression())
	client, err := kgo.NewClient(kgo.SeedBrokers(r.broker.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range partitions * each {
		value := fmt.Appendf(nil, `{"a":%d.25,"b":%d.5,"c":1,"d":2,"e":3}`, i, i*i%1009)
		client.Produce(t.Context(), &kgo.Record{Topic: r.topic, Partition: int32(i % partitions), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []*Kafka
	for id := range int32(partitions) {
		k := r.open(1<<20, id)
		defer func() { _ = k.Close() }()
		all = append(all, k)
	}
	var batches []Batch
	for id, k := range all {
		b, err := k.Read(ctx)
		if err != nil {
			t.Fatalf("reader %d of %d, while the others keep their first batches: %v", id+1, partitions, err)
		}
		batches = append(batches, b)
	}
	for _, b := range batches {
		b.Release()
	}
}

// What was read is no longer in memory once its batch is released, even if nothing is read after it.
func TestReleasedMessagesAreLetGo(t *testing.T) {
	const partitions = 4
	r := readers{t: t, broker: kafkatest.Start(t, kafkatest.Embedded), topic: "released", memory: NewMemory(1, 1)}
	r.produce(partitions, 1, []byte(`{"x":1,"text":"`+strings.Repeat("x", 3<<20)+`"}`), kgo.NoCompression())
	var values []weak.Pointer[byte]
	for id := range int32(partitions) {
		k := r.open(1<<20, id)
		defer func() { _ = k.Close() }()
		if err := r.read(t.Context(), k, 1, func(b Batch) { values = append(values, weak.Make(&b.Messages[0].Value[0])) }); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		runtime.GC()
		held := 0
		for _, v := range values {
			if v.Value() != nil {
				held++
			}
		}
		if held == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d messages are held", held, partitions)
		}
	}
}

// A reader that is sent elsewhere, or closed, in the middle gives back what it had read ahead.
func TestSeekGivesMemoryBack(t *testing.T) {
	r := readers{t: t, broker: kafkatest.Start(t, kafkatest.Embedded), topic: "seek", memory: NewMemory(1, 1)}
	value := []byte(`{"x":1,"text":"` + strings.Repeat("x", 5<<20) + `"}`)
	r.produce(3, 5, value, kgo.NoCompression())
	k := r.open(1<<20, 0, 1, 2)
	for range 20 {
		if err := r.read(t.Context(), k, 1, func(Batch) {}); err != nil {
			t.Fatal(err)
		}
		if err := k.Seek(t.Context(), Offsets{{Topic: "seek", ID: 0}: 0, {Topic: "seek", ID: 1}: 0, {Topic: "seek", ID: 2}: 0}); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	r.memory.idle(t)
	if r.memory.lanes != 0 || r.memory.readers != 0 {
		t.Errorf("%d lanes and %d readers are left", r.memory.lanes, r.memory.readers)
	}
}

// A batch ends where its messages are large enough once decoded, however few bytes they came as: sixty that
// decompress to 3 MB each are not taken together.
func TestDecodedBytesCount(t *testing.T) {
	const messages = 60
	r := readers{t: t, broker: kafkatest.Start(t, kafkatest.Embedded), topic: "dense", memory: NewMemory(512<<20, 1)}
	rows := []byte(`[` + strings.TrimSuffix(strings.Repeat(`{"a":1.5,"b":2.5},`, 20_000), ",") + `]`)
	r.produce(1, messages, rows, kgo.ZstdCompression())
	k := r.open(1<<20, 0)
	defer func() { _ = k.Close() }()
	most := 0
	if err := r.read(t.Context(), k, messages, func(b Batch) {
		decoded := 0
		for _, m := range b.Messages {
			for _, c := range m.Record.Columns() {
				for _, buffer := range c.Data().Buffers() {
					if buffer != nil {
						decoded += buffer.Len()
					}
				}
			}
		}
		most = max(most, decoded)
	}); err != nil {
		t.Fatal(err)
	}
	if most > decodedPerByte<<20 {
		t.Errorf("a batch holds %d decoded bytes", most)
	}
}

// What is kept for the next responses has one bound, whatever came before: a response of many records is as
// large as one of many bytes.
func TestKeptMemoryIsBounded(t *testing.T) {
	m := NewMemory(512<<20, 1)
	var all []*block
	for i := range 200 {
		b := m.blocks().take(100 << 10 * (1 + i%20))
		b.records = append(b.records, make([]recordbatch.Record, 1000*(i%30))...)
		all = append(all, b)
	}
	for _, b := range all {
		b.drop()
	}
	kept := 0
	for _, b := range m.spare.free {
		kept += b.size()
	}
	if kept != m.spare.bytes || kept > m.spare.mostBytes || kept == 0 {
		t.Errorf("%d bytes are kept, %d are counted, at most %d", kept, m.spare.bytes, m.spare.mostBytes)
	}
	before := len(m.spare.free)
	huge := m.blocks().take(1)
	huge.records = make([]recordbatch.Record, 1_000_000)
	huge.drop()
	if len(m.spare.free) >= before {
		t.Error("a block of a million records is kept")
	}
}

// What lanes and readers take at most is kept for their next responses, however few they are: a block of the usual size that is not kept would have
// to be cleared and collected for each response.
func TestUsualBlocksAreKept(t *testing.T) {
	for _, lanes := range []int{1, 2, 3, 12, 100} {
		m := NewMemory(512<<20, 1)
		m.join(lanes)
		b := m.blocks().take(m.lane())
		b.records = make([]recordbatch.Record, min(m.lane(), m.Spare()-2*m.lane())/recordbatch.RecordBytes)
		b.drop()
		for range 3 {
			next := m.blocks().take(m.lane() + m.lane()/16)
			if next != b {
				t.Errorf("%d lanes: a response of %d bytes has a new block", lanes, m.lane())
			}
			next.drop()
		}
	}
}

// Blocks make room for those that were used after them.
func TestOldBlocksMakeRoom(t *testing.T) {
	h := &blocks{mostBytes: 8 << 20}
	odd, usual := h.take(6<<20), []*block{h.take(3 << 20), h.take(3 << 20)}
	odd.drop()
	for _, b := range usual {
		b.drop()
	}
	if len(h.free) != 2 || slices.Contains(h.free, odd) {
		t.Errorf("%d blocks of %d bytes are kept, the odd one: %v", len(h.free), h.bytes, slices.Contains(h.free, odd))
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
