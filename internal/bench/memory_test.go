package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// backlog is what lies on a topic when a program starts.
type backlog struct {
	name           string
	columns        []string
	dim, rows      int
	messages, keep int // keep: how many differ; these come again in turn
	value          func(b *testing.B) []byte
}

func backlogs() []backlog {
	names := make([]string, 12)
	for i := range names {
		names[i] = fmt.Sprintf("f%d", i)
	}
	json := func(*testing.B) []byte {
		var text strings.Builder
		for i, v := range clusters(1, len(names)) {
			fmt.Fprintf(&text, ",%q:%v", names[i], v)
		}
		return []byte("{" + text.String()[1:] + "}")
	}
	arrow := func(dim, rows int) func(b *testing.B) []byte {
		return func(b *testing.B) []byte { return messageOf(b, dim, rows) }
	}
	return []backlog{
		{"JSON, one row of 12", names, 12, 1, 300_000, 300_000, json},
		{"Arrow, one row of 12", []string{"x"}, 12, 1, 300_000, 20_000, arrow(12, 1)},
		{"Arrow, 100 rows of 16", []string{"x"}, 16, 100, 30_000, 5_000, arrow(16, 100)},
		{"Arrow, 1000 rows of 64", []string{"x"}, 64, 1000, 2_000, 500, arrow(64, 1000)},
	}
}

// BenchmarkMemory is the largest resident size of transform, and of run, over a backlog on 12 partitions and on 100,
// and the rows per second of processor time until it is whitened.
//
//	go test ./internal/bench -run '^$' -bench Memory -benchtime 1x -timeout 1h
//
// CELLS is a pattern of the cells such as 'JSON.*/12$', TABLES a directory for the table.
func BenchmarkMemory(b *testing.B) {
	h, chosen := newHall(b), regexp.MustCompile(os.Getenv("CELLS"))
	var lines []string
	for _, l := range backlogs() {
		for _, partitions := range []int{12, 100} {
			name := fmt.Sprintf("%s/%d", l.name, partitions)
			if !chosen.MatchString(name) {
				continue
			}
			b.Run(name, func(b *testing.B) {
				h.broker = kafkatest.Start(b, kafkatest.Kafka41) // its own: the topics are large
				s := l.fill(b, h, partitions)
				line := fmt.Sprintf("| %s | %d |", l.name, partitions)
				for _, command := range []string{"transform", "run"} {
					r := l.measure(b, s, command)
					b.ReportMetric(r.RSS, "MiB-"+command)
					line += fmt.Sprintf(" %.0f | %s |", r.RSS, thousands(float64(l.messages*l.rows)/r.CPU))
				}
				b.ReportMetric(0, "ns/op")
				lines = append(lines, line+"\n")
			})
		}
	}
	table(b, "memory", "| backlog | partitions | transform, MiB | rows per CPU second | run, MiB | rows per CPU second |\n|---|---|---|---|---|---|\n", lines)
}

// fill writes the backlog and learns a model of it.
func (l backlog) fill(b *testing.B, h *hall, partitions int) *stream {
	b.Helper()
	id := fmt.Sprintf("memory-%d", time.Now().UnixNano())
	s := &stream{id: id, model: id, dim: l.dim, rows: l.rows, messages: l.messages, partitions: partitions, broker: h.broker, binary: h.binary}
	s.topic(b, id+"-in", partitions, nil)
	s.topics(b)
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: s.broker.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: c, TransactionalID: id + "-fill"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	var kept [][]byte
	var msgs []sink.Message
	size := 0
	for i := range l.messages {
		if len(kept) < l.keep {
			kept = append(kept, l.value(b))
		}
		value := kept[i%len(kept)]
		msgs = append(msgs, sink.Message{Topic: id + "-in", Partition: int32(i % partitions), Value: value})
		if size += len(value); size > 4<<20 || len(msgs) == 8000 || i == l.messages-1 {
			if err := k.Put(context.Background(), msgs, source.Claim{}); err != nil {
				b.Fatal(err)
			}
			msgs, size = msgs[:0], 0
		}
	}
	p := start(b, s.binary, []string{"learn", "-c", l.config(b, s, id+"-model", id+"-none", id)})
	p.await(b, `^lca_snapshots_total [1-9]`)
	p.stop(b)
	return s
}

// measure whitens the whole backlog; run learns it besides, from its start.
func (l backlog) measure(b *testing.B, s *stream, command string) result {
	b.Helper()
	group, model := s.id+"-"+command, s.id
	if command == "run" {
		model = group
		s.topic(b, model+"-snapshots", 1, map[string]string{"cleanup.policy": "compact"})
		s.topic(b, model+"-checkpoints", 1, map[string]string{"cleanup.policy": "compact"})
	}
	out := s.topic(b, group+"-out", s.partitions, nil)
	p := start(b, s.binary, []string{command, "-c", l.config(b, s, group, out, model)})
	p.awaitCount(b, "lca_transform_rows_total", s.messages*s.rows)
	return p.stop(b)
}

func (l backlog) config(b *testing.B, s *stream, group, output, model string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "memory.yaml")
	text := fmt.Sprintf(`
kafka: {brokers: [%q]}
source: {topic: %s-in, group: %s, features: [%s]}
lca: {skip_when_behind: false}
snapshot: {topic: %s-snapshots}
checkpoint: {topic: %s-checkpoints}
transform: {topic: %s}
http: {listen: "127.0.0.1:0", debug_endpoints: true}
`, s.broker.Addrs()[0], s.id, group, strings.Join(l.columns, ", "), model, model, output)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	return path
}
