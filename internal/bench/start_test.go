package bench

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// BenchmarkStart is the time from the start of a process to a read_committed reader that sees its first output: a record
// waits, 16 versions of a model with 64 columns are on the snapshot topic, and a checkpoint of 10 MB, which `run` reads
// and `transform` does not.
//
//	go test ./internal/bench -run '^$' -bench Start -benchtime 1x
func BenchmarkStart(b *testing.B) {
	const versions, rounds, neighbours = 16, 11, 18_000
	h := newHall(b)
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	id := fmt.Sprintf("start-%d", time.Now().UnixNano())
	s := &stream{id: id, model: id, dim: 64, rows: 100, messages: (versions + 1) * 164, partitions: 1, broker: h.broker, binary: h.binary, neighbours: neighbours}
	s.create(b)
	out := s.topic(b, id+"-out", 1, nil)
	config := s.config(b, id+"-group", out, true)
	first := start(b, s.binary, []string{"run", "-c", config})
	first.awaitCount(b, "lca_snapshots_total", versions)
	first.awaitCount(b, "lca_transform_rows_total", s.messages*s.rows)
	made := int(first.value(b, "lca_snapshots_total"))
	first.stop(b)
	b.Logf("%d versions, checkpoints and start markers of %.1f MB", made, s.weight(b, id+"-checkpoints")/1e6)
	var lines []string
	for _, command := range []string{"run", "transform"} {
		var all []time.Duration
		for range rounds {
			all = append(all, s.firstOutput(b, command, config, out))
		}
		slices.Sort(all)
		line := "| `" + command + "`" + quantiles(all) + "\n"
		b.Log(line)
		lines = append(lines, line)
	}
	b.ReportMetric(0, "ns/op")
	table(b, "start", "| | median, ms | p90 | p99 | most |\n|---|---|---|---|---|\n", lines)
}

// weight is the size of the newest value of each key of a topic of one partition, in bytes: what compaction leaves.
func (s *stream) weight(b *testing.B, topic string) (sum float64) {
	b.Helper()
	end := s.ends(b, topic)[0].EpochOffset().Offset
	newest := map[string]int{}
	s.read(b, topic, map[int32]kgo.Offset{0: kgo.NewOffset().AtStart()}, 1, func(r *kgo.Record) bool {
		newest[string(r.Key)] = len(r.Value)
		return r.Offset >= end-2 // a marker of the transaction is last
	})
	for _, size := range newest {
		sum += float64(size)
	}
	return sum
}

// firstOutput starts a process with one record before it, and returns how long it takes until that is out.
func (s *stream) firstOutput(b *testing.B, command, config, out string) time.Duration {
	b.Helper()
	from := s.ends(b, out)
	producer := client(b, s.broker, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	record := &kgo.Record{Topic: s.id + "-in", Value: messageOf(b, s.dim, s.rows)}
	if err := producer.ProduceSync(b.Context(), record).FirstErr(); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(s.binary, command, "-c", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s.read(b, out, from, 1, func(*kgo.Record) bool { return true })
	took := time.Since(began)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		b.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}
