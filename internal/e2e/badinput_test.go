//go:build unix

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// badInput is one message that is not what the program wants, and its documented end: a dead letter
// with a code, or "" for a message that is whitened all the same, or "nothing" for one without rows.
var badInput = []struct {
	name  string
	value func(t *testing.T) []byte
	end   string
}{
	{"truncated", func(t *testing.T) []byte { v := rowsABC(t, 5, nil, "a", "b", "c"); return v[:len(v)*2/3] }, "arrow_truncated"},
	{"random", func(*testing.T) []byte { return []byte(strings.Repeat("\x93 noise ", 40)) }, "format_unknown"},
	{"an Arrow file", arrowFile, "arrow_file_format"},
	{"JSON rows", func(*testing.T) []byte { return []byte(`[{"a": 1, "b": 2, "c": 3.5}, {"a": 0, "b": 1e-3, "c": 2}]`) }, ""},
	{"JSON that holds no rows", func(*testing.T) []byte { return []byte(`[1, 2, 3]`) }, "json_type"},
	{"text", func(*testing.T) []byte { return []byte(`"just text"`) }, "format_unknown"},
	{"wrong columns", func(t *testing.T) []byte { return rowsABC(t, 5, nil, "x", "y", "z") }, "feature_missing"},
	{"one column too few", func(t *testing.T) []byte { return rowsABC(t, 5, nil, "a", "b") }, "feature_missing"},
	{"NaN, null and Inf rows", func(t *testing.T) []byte { return rowsABC(t, 6, spoil, "a", "b", "c") }, ""},
	{"an empty batch", func(t *testing.T) []byte { return rowsABC(t, 0, nil, "a", "b", "c") }, "nothing"},
	{"no bytes", func(*testing.T) []byte { return []byte{} }, "empty"},
	{"more than 16 MiB", func(*testing.T) []byte { return make([]byte, 17<<20) }, "too_large"},
}

// Bad input of every kind ends as documented, nothing else is lost, and memory stays bounded.
func TestBadInputEndsAsDocumented(t *testing.T) {
	t.Parallel()
	const memoryBoundMiB = 400 // 17 MiB of input is held a few times over; a leak or a bomb is far above
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "bad", settings{partitions: 1, features: "[a, b, c]"})
	for _, topic := range []string{"in", "dead"} {
		b.AlterTopic(t, s.topic(topic), map[string]string{"max.message.bytes": strconv.Itoa(20 << 20)})
	}
	var values [][]byte
	good := func(n int) {
		for range n {
			values = append(values, rowsABC(t, 30, nil, "a", "b", "c"))
		}
	}
	good(30)
	ends := map[int]string{}
	for _, c := range badInput {
		ends[len(values)] = c.end
		values = append(values, c.value(t))
		good(1)
	}
	s.produce(values)
	run := s.program("run")
	s.await(s.name, int64(len(values)), run)
	peak := testtools.PeakMiB(t, run.Pid())
	run.stop()

	outputs := map[int]bool{}
	for _, r := range b.ReadCommitted(t, s.topic("out")) {
		outputs[sourceOffset(t, r.Headers)] = true
	}
	letters := map[int]string{}
	for _, r := range b.ReadCommitted(t, s.topic("dead")) {
		at := sourceOffset(t, r.Headers)
		for _, h := range r.Headers {
			if h.Key == "lca-error-code" {
				letters[at] = string(h.Value)
			}
		}
		if !bytes.Equal(r.Value, values[at]) {
			t.Errorf("dead letter of %d has %d bytes, the input had %d", at, len(r.Value), len(values[at]))
		}
	}
	for i := range values {
		end := ends[i]
		if whole := end == ""; outputs[i] != whole {
			t.Errorf("message %d (want end %q): whitened is %v", i, end, outputs[i])
		}
		if end != "nothing" && letters[i] != end {
			t.Errorf("message %d: dead letter code %q, want %q", i, letters[i], end)
		}
	}
	if peak > memoryBoundMiB {
		t.Errorf("the program took %d MiB at its peak, more than %d", peak, memoryBoundMiB)
	}
	t.Logf("peak memory %d MiB", peak)
}

// Without a dead-letter topic the program stops at the first bad record, says where and what to do,
// and loses nothing: once the topic is named, the next start goes on from that record.
func TestBadInputStopsByDefault(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t, kafkatest.Kafka41)
	s := newStream(t, b, "stop", settings{partitions: 1, features: "[a, b, c]"})
	var values [][]byte
	for range 30 {
		values = append(values, rowsABC(t, 30, nil, "a", "b", "c"))
	}
	values[20] = []byte("garbage \x01")
	s.produce(values)
	run := s.program("run", "--set", "dead_letter.topic=")
	<-run.Done()
	log, err := os.ReadFile(run.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"stop-in/0@20", "dead_letter.topic"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the log does not say %q:\n%s", want, lastLines(run.log, 10))
		}
	}
	if code := run.ExitCode(); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	again := s.program("run")
	s.await(s.name, int64(len(values)), again)
	again.stop()
	if out, dead := len(b.ReadCommitted(t, s.topic("out"))), len(b.ReadCommitted(t, s.topic("dead"))); out != 29 || dead != 1 {
		t.Errorf("%d outputs and %d dead letters of 30 records", out, dead)
	}
}

// sourceOffset is the offset of the input that a record stands for.
func sourceOffset(t *testing.T, headers []kgo.RecordHeader) int {
	t.Helper()
	for _, h := range headers {
		if h.Key == "lca-source-offset" {
			at, err := strconv.Atoi(string(h.Value))
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	t.Fatal("a record without lca-source-offset")
	return 0
}

// produce writes values in one transaction to the empty partition 0, so that value i is at offset i.
func (s *stream) produce(values [][]byte) {
	s.t.Helper()
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: s.Addrs()})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: c, TransactionalID: s.name + "-producer"})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	var msgs []sink.Message
	for i, v := range values {
		msgs = append(msgs, sink.Message{Topic: s.topic("in"), Key: strconv.AppendInt(nil, int64(i), 10), Value: v})
	}
	if err := k.Put(context.Background(), msgs, source.Claim{}); err != nil {
		s.t.Fatal(err)
	}
}

// spoil puts a NaN into row 1, a null into row 2 and an Inf into row 3 of column b.
func spoil(b *array.RecordBuilder, row int) bool {
	f := b.Field(1).(*array.Float32Builder)
	switch row {
	case 1:
		f.Append(float32(math.NaN()))
	case 2:
		f.AppendNull()
	case 3:
		f.Append(float32(math.Inf(1)))
	default:
		return false
	}
	return true
}

// rowsABC is an Arrow stream of n rows of two clusters, with the columns named.
func rowsABC(t *testing.T, n int, spoil func(*array.RecordBuilder, int) bool, columns ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	writeRows(t, n, spoil, columns, func(s *arrow.Schema) (recordWriter, error) {
		return ipc.NewWriter(&buf, ipc.WithSchema(s)), nil
	})
	return buf.Bytes()
}

type recordWriter interface {
	Write(arrow.Record) error
	Close() error
}

func writeRows(t *testing.T, n int, spoil func(*array.RecordBuilder, int) bool, columns []string, open func(*arrow.Schema) (recordWriter, error)) {
	t.Helper()
	fields := make([]arrow.Field, len(columns))
	for i, name := range columns {
		fields[i] = arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float32, Nullable: true}
	}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for row := range n {
		side := float64(6*rand.IntN(2) - 3)
		for j := range columns {
			if j == 1 && spoil != nil && spoil(b, row) {
				continue
			}
			b.Field(j).(*array.Float32Builder).Append(float32(side*float64(1-min(j, 1)) + rand.NormFloat64()))
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	w, err := open(schema)
	if err == nil {
		err = errors.Join(w.Write(rec), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func arrowFile(t *testing.T) []byte {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "rows")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	writeRows(t, 5, nil, []string{"a", "b", "c"}, func(s *arrow.Schema) (recordWriter, error) {
		return ipc.NewFileWriter(f, ipc.WithSchema(s))
	})
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
