//go:build unix

package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// readerFeatures is how many features the messages of TestReadersOfOthers have.
const readerFeatures = 8

// Small messages may become outputs of any size that compress to almost nothing. Clients with their default settings read all of them: librdkafka (of
// Python, .NET, C++, Node), which takes 100 MB of what a batch decompresses to, Java's and Go's. What they would not read is set aside.
func TestReadersOfOthers(t *testing.T) {
	t.Parallel()
	const partitions = 12
	b := kafkatest.StartWith(t, kafkatest.Older(kafkatest.Kafka39), kafkatest.Setup{HeapMiB: 1024}) // of its own: messages of 95 MiB took the memory of the one that all tests share
	s := newStream(t, b, "readers", settings{partitions: partitions, features: "[c0, c1, c2, c3, c4, c5, c6, c7]"})
	rng := rand.New(rand.NewPCG(5, 6))
	var rows [][]byte
	for range 3000 {
		row := []byte(`{"c0":0.5`)
		for k := 1; k < readerFeatures; k++ {
			row = fmt.Appendf(row, `,"c%d":%.3f`, k, rng.NormFloat64())
		}
		rows = append(rows, append(row, '}'))
	}
	s.produce(rows)
	learn := s.program("learn")
	s.await(s.name+".learn", int64(len(rows)), learn)
	learn.stop()

	zero := func(int) float64 { return 0 }
	var large [][]byte
	sizes := []int{4, 8, 16, 28, 40, 53, 57} // the last one becomes 100 MiB
	if testing.Short() {
		sizes = []int{4, 28, 53, 57}
	}
	for _, mib := range sizes {
		large = append(large, inflating(t, mib, "", zero))
	}
	large = append(large, inflating(t, 50, "", func(int) float64 { return 1.25 }), inflating(t, 30, "a text that repeats; ", func(row int) float64 { return float64(row % 7) }),
		bytes.Repeat([]byte(`{"c0":1.25,"c1":2.5,"c2":3.75,"c3":4,"c4":5,"c5":6,"c6":7,"c7":8,"text":"alike, alike"}`+"\n"), 100_000))
	b.AlterTopic(t, s.topic("in"), map[string]string{"max.message.bytes": "4000000"})
	s.produceZstd(large, partitions)
	run := s.program("transform")
	s.await(s.name, int64(len(rows)+len(large)), run)
	run.stop()
	dead := b.ReadCommitted(t, s.topic("dead"))
	if len(dead) != 1 || recordHeader(dead[0], "lca-error-code") != "output_too_large" || len(dead[0].Value) != len(large[len(sizes)-1]) {
		for _, r := range dead {
			t.Errorf("dead letter of %d bytes: %s", len(r.Value), recordHeader(r, "lca-error"))
		}
		t.Errorf("%d dead letters, want one of what clients would not read", len(dead))
	}
	written := len(rows) + len(large) - len(dead) + s.largest()

	want := readByGo(t, b.Addrs(), s.topic("out"), written)
	got := strings.Split(strings.TrimSpace(testtools.RunPython(t, "testdata/readers.py", b.Addrs()[0], s.topic("out"))), "\n")
	slices.Sort(got)
	if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		t.Errorf("librdkafka reads %d messages, franz-go %d, or others", len(got), len(want))
	}
	readByJava(t, b.Addrs()[0], s.topic("out"), want)
}

// largest writes the largest message there is to the output, compressed and as it is, and returns how many those are.
func (s *stream) largest() (messages int) {
	s.t.Helper()
	s.AlterTopic(s.t, s.topic("out"), map[string]string{"max.message.bytes": strconv.Itoa(sink.MostMessage)})
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: s.Addrs()})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	zeros := make([]byte, 1<<20)
	value := append(slices.Repeat([][]byte{zeros}, sink.MostMessage>>20-1), zeros[:len(zeros)-100]) // a batch's header and the record's own
	for i, compress := range []bool{false, true} {
		k, err := sink.OpenKafka(s.t.Context(), sink.KafkaConfig{Cluster: c, TransactionalID: s.name + "-largest", Compress: compress})
		if err == nil {
			err = k.Put(s.t.Context(), []sink.Message{{Topic: s.topic("out"), Partition: int32(i), Rest: value}}, source.Claim{})
		}
		if err != nil {
			s.t.Fatal(err)
		}
		messages++
	}
	return messages
}

// inflating is an Arrow message of features and perhaps a column of text. Its body is zstd, and has so many MiB when decompressed.
func inflating(t *testing.T, mib int, text string, number func(row int) float64) []byte {
	t.Helper()
	const features = readerFeatures
	each := 8*features + len(text)
	if text != "" {
		each += 4 // where it begins
	}
	rows := mib << 20 / each
	fields := make([]arrow.Field, features, features+1)
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprintf("c%d", i), Type: arrow.PrimitiveTypes.Float64}
	}
	if text != "" {
		fields = append(fields, arrow.Field{Name: "text", Type: arrow.BinaryTypes.String})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for i := range fields {
		for row := range rows {
			if i == features {
				b.Field(i).(*array.StringBuilder).Append(text)
			} else {
				b.Field(i).(*array.Float64Builder).Append(number(row))
			}
		}
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

// readByGo reads n messages of a topic with franz-go as it comes. Each message is a line as readers.py prints it, and its size.
func readByGo(t *testing.T, brokers []string, topic string, n int) map[string]int {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	messages := map[string]int{}
	for len(messages) < n {
		fetched := c.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatalf("franz-go, after %d of %d messages: %v", len(messages), n, err)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			messages[fmt.Sprint(r.Partition, " ", r.Offset, " ", len(r.Value), " ", crc32.ChecksumIEEE(r.Value))] = len(r.Value)
		})
	}
	return messages
}

// readByJava reads messages of a topic with Kafka's console consumer, which writes each as a line.
func readByJava(t *testing.T, broker, topic string, messages map[string]int) {
	t.Helper()
	cmd := exec.Command("java", "-Xmx1536m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(kafkatest.Jars(t, "kafka-tools-4.1.0"), "*"), "org.apache.kafka.tools.consumer.ConsoleConsumer",
		"--bootstrap-server", broker, "--topic", topic, "--from-beginning", "--max-messages", strconv.Itoa(len(messages)), "--timeout-ms", "60000")
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.Copy(io.Discard, out)
	if err = cmp.Or(err, cmd.Wait()); err != nil {
		t.Fatalf("%v: %s", err, errors.String())
	}
	want := int64(len(messages)) // ends of lines
	for _, size := range messages {
		want += int64(size)
	}
	if got != want {
		t.Errorf("Java reads %d bytes, want %d: %s", got, want, errors.String())
	}
}
