package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// stream is an input topic and what belongs to it.
type stream struct {
	id            string
	model         string // prefix of the topics of the model
	dim, rows     int    // rows per message
	messages      int
	partitions    int
	broker        *kafkatest.Broker
	binary        string
	neighbours    int
	minibatchRows int
}

// topic creates a topic for values of any size that occurs here.
func (s *stream) topic(b *testing.B, name string, partitions int, config map[string]string) string {
	b.Helper()
	all := map[string]string{"max.message.bytes": "16777216"}
	for k, v := range config {
		all[k] = v
	}
	s.broker.CreateTopic(b, name, partitions, all)
	return name
}

// create makes the input topic and fills it, and makes the topics of the model.
func (s *stream) create(b *testing.B) {
	b.Helper()
	s.topic(b, s.id+"-in", s.partitions, nil)
	s.topics(b)
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: s.broker.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: c, TransactionalID: s.id + "-fill"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	var msgs []sink.Message
	size := 0
	for i := range s.messages {
		value := messageOf(b, s.dim, s.rows) // all rows differ, as a stream's do: a row that comes again is a near copy
		msgs = append(msgs, sink.Message{Topic: s.id + "-in", Partition: int32(i % s.partitions), Value: value})
		if size += len(value); size > 4<<20 || len(msgs) == 4000 || i == s.messages-1 {
			if err := k.Put(context.Background(), msgs, source.Claim{}); err != nil {
				b.Fatal(err)
			}
			msgs, size = msgs[:0], 0
		}
	}
}

// topics makes those of the model.
func (s *stream) topics(b *testing.B) {
	b.Helper()
	compact := map[string]string{"cleanup.policy": "compact"}
	s.topic(b, s.model+"-snapshots", 1, compact)
	s.topic(b, s.model+"-checkpoints", 1, compact)
}

// config writes a configuration for this stream; group and output are the contestant's own.
func (s *stream) config(b *testing.B, group, output string, score bool) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "bench.yaml")
	text := fmt.Sprintf(`
kafka: {brokers: [%q]}
source: {topic: %s-in, group: %s, features: [x]}
minibatch: {rows: %d}
lca: {skip_when_behind: false, neighbours: %d}
snapshot: {topic: %s-snapshots, every_rows: 16384}
checkpoint: {topic: %s-checkpoints}
transform: {topic: %s, score: %v}
http: {listen: "127.0.0.1:0", debug_endpoints: true}
`, s.broker.Addrs()[0], s.id, group, max(s.minibatchRows, 100), max(s.neighbours, 256), s.model, s.model, output, score)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}

// learnModel runs the learner until there is a first snapshot, which the transforms then use.
func (s *stream) learnModel(b *testing.B) {
	b.Helper()
	p := start(b, s.binary, []string{"learn", "-c", s.config(b, s.id+"-model", s.id+"-none", true)})
	p.await(b, `^lca_snapshots_total [1-9]`)
	p.stop(b)
}

// messageOf is rows of clusters, as one list column.
func messageOf(b *testing.B, d, rows int) []byte {
	b.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.FixedSizeListOf(int32(d), arrow.PrimitiveTypes.Float32)}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	list := builder.Field(0).(*array.FixedSizeListBuilder)
	values := list.ValueBuilder().(*array.Float32Builder)
	for range rows {
		list.Append(true)
	}
	values.AppendValues(clusters(rows, d), nil)
	rec := builder.NewRecord()
	defer rec.Release()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		b.Fatal(err)
	}
	return buf.Bytes()
}

// clusters are rows in two clusters along the first column, with noise in the others.
func clusters(rows, d int) []float32 {
	x := make([]float32, rows*d)
	for i := range x {
		x[i] = float32(rand.NormFloat64())
		if i%d == 0 {
			x[i] += float32(6*rand.IntN(2) - 3)
		}
	}
	return x
}
