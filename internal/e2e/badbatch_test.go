//go:build unix

package e2e_test

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// badBatch is a batch that a broker takes and that is not a batch of records. Offsets is how many it takes.
type badBatch struct {
	name    string
	batch   kafkatest.Forged
	offsets int64
	code    string
}

// badBatches: a broker checks the header and the checksum, and of uncompressed records hardly more.
func badBatches() []badBatch {
	row := []byte(`{"a": 1, "b": 2, "c": 3}`)
	record := func(offset int) []byte { return kafkatest.ForgedRecord(offset, row, 0) }
	zstd := kgo.ZstdCompression()
	return []badBatch{
		{"equal offsets", kafkatest.Forged{Records: slices.Concat(record(0), record(0)), Count: 2}, 2, "batch_invalid"},
		{"descending offsets", kafkatest.Forged{Records: slices.Concat(record(1), record(0)), Count: 2}, 2, "batch_invalid"},
		{"offsets beyond the last", kafkatest.Forged{Records: slices.Concat(record(0), record(7)), Count: 2}, 2, "batch_invalid"},
		{"garbage that is compressed", kafkatest.Forged{Records: bytes.Repeat([]byte("garbage "), 99), Count: 3, Codec: zstd}, 3, "batch_invalid"},
		{"a compressed batch with a wrong count", kafkatest.Forged{Records: kafkatest.ForgedRecords(5, row), Count: 4, Codec: kgo.Lz4Compression()}, 4, "batch_invalid"},
		{"33 million headers", kafkatest.Forged{Records: kafkatest.ForgedRecord(0, row, 33_000_000), Count: 1, Codec: zstd}, 1, "too_large"},
		{"a million records", kafkatest.Forged{Records: kafkatest.ForgedRecords(1_000_000, nil), Count: 1_000_000, Codec: zstd}, 1_000_000, "too_large"},
		{"records that decompress to 128 MiB", kafkatest.Forged{Records: kafkatest.ForgedRecord(0, make([]byte, 128<<20), 0), Count: 1, Codec: zstd}, 1, "too_large"},
		{"a window of 128 MiB", kafkatest.Forged{Records: []byte{0x28, 0xB5, 0x2F, 0xFD, 0, 17 << 3, 1, 0, 0}, Count: 1, Bits: 4}, 1, "batch_invalid"},
	}
}

// A batch that cannot be read never stops a pipeline that sets bad records aside: its bytes are the dead
// letter, its offsets are passed over together, what is around it is whitened, and memory stays small.
func TestBadBatchesAreSetAside(t *testing.T) {
	t.Parallel()
	const memoryBoundMiB = 256
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "batches", settings{partitions: 1, features: "[a, b, c]"})
	for _, topic := range []string{"in", "dead"} {
		b.AlterTopic(t, s.topic(topic), map[string]string{"max.message.bytes": strconv.Itoa(20 << 20)})
	}
	ends := map[int64]badBatch{}
	next, goods := int64(0), 0
	good := func(n int) {
		for range n {
			if code := b.Produce(t, s.topic("in"), kafkatest.Forged{Records: kafkatest.ForgedRecord(0, rowsABC(t, 30, nil, "a", "b", "c"), 0), Count: 1}.Bytes(t)); code != 0 {
				t.Fatalf("a good batch is refused with code %d", code)
			}
			next++
			goods++
		}
	}
	good(30)
	batches := map[int64][]byte{}
	for _, c := range badBatches() {
		raw := c.batch.Bytes(t)
		if code := b.Produce(t, s.topic("in"), raw); code != 0 {
			t.Logf("%s: refused by the broker with code %d", c.name, code)
			continue
		}
		ends[next], batches[next] = c, raw
		next += c.offsets
		good(1)
	}
	if len(ends) < 6 { // which ones depends on the version
		t.Fatalf("the broker took only %d of the batches", len(ends))
	}
	behind := next
	good(30) // so that the learner has a checkpoint to write behind them
	run := s.program("run")
	s.await(s.name, next, run)
	s.await(s.name+".learn", behind, run)
	peak := testtools.PeakMiB(t, run.Pid())
	run.stop()
	if out := len(b.ReadCommitted(t, s.topic("out"))); out != goods {
		t.Errorf("%d outputs, want %d", out, goods)
	}
	for _, r := range b.ReadCommitted(t, s.topic("dead")) {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		at, err := strconv.ParseInt(headers["lca-source-offset"], 10, 64)
		c, ok := ends[at]
		if err != nil || !ok {
			t.Errorf("a dead letter of %v", headers)
			continue
		}
		delete(ends, at)
		last := strconv.FormatInt(at+c.offsets-1, 10)
		if headers["lca-error-code"] != c.code || headers["lca-source-last-offset"] != last {
			t.Errorf("%s: %v; want code %s, last offset %s", c.name, headers, c.code, last)
		}
		if want := batches[at]; !bytes.Equal(asProduced(r.Value, want), want) {
			t.Errorf("%s: the dead letter has %d bytes, the batch had %d", c.name, len(r.Value), len(want))
		}
	}
	for _, c := range ends {
		t.Errorf("%s: no dead letter", c.name)
	}
	if peak > memoryBoundMiB {
		t.Errorf("%d MiB at the peak, more than %d", peak, memoryBoundMiB)
	}
	t.Logf("peak memory %d MiB", peak)
}

// asProduced takes back what a broker writes into a batch: its base offset, and the leader's epoch.
func asProduced(b, was []byte) []byte {
	b = bytes.Clone(b)
	if len(b) >= 16 {
		copy(b[:8], was[:8])
		copy(b[12:16], was[12:16])
	}
	return b
}

// Without a dead-letter topic such a batch stops the program as any bad record does.
func TestBadBatchStopsByDefault(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "stopbatch", settings{partitions: 1, features: "[a, b, c]"})
	if code := b.Produce(t, s.topic("in"), badBatches()[0].batch.Bytes(t)); code != 0 {
		t.Fatalf("refused by the broker with code %d", code)
	}
	for _, stage := range []string{"learn", "run"} {
		p := s.program(stage, "--set", "dead_letter.topic=", "--set", "transform.until_model=pass_through")
		<-p.Done()
		log, err := os.ReadFile(p.log)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"stopbatch-in/0@0", "batch_invalid", "to offset 1", "dead_letter.topic"} {
			if !strings.Contains(string(log), want) {
				t.Errorf("the log of %s does not say %q:\n%s", stage, want, lastLines(p.log, 10))
			}
		}
		if code := p.ExitCode(); code != 2 {
			t.Errorf("%s: exit code %d, want 2", stage, code)
		}
	}
}
