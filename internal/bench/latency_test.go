package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// BenchmarkLatency is the time from a message's own timestamp to a read_committed reader that sees its
// output: 200 messages per second of 10 rows, d = 64, exactly once, lca-stream and the Python rival in turn. A first round is not counted: the
// broker's compiler sees such a load for the first time. ROUNDS is how many are (3).
//
//	go test ./internal/bench -run '^$' -bench Latency -benchtime 1x
func BenchmarkLatency(b *testing.B) {
	const messages, perSecond = 2000, 200
	h := newHall(b)
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	rounds := map[string][][]time.Duration{}
	for i, who := range slices.Repeat([]string{"ours", "Python"}, 1+h.rounds) {
		id := fmt.Sprintf("latency-%d", time.Now().UnixNano())
		s := &stream{id: id, model: id, dim: 64, rows: 10, messages: 300, partitions: 2, broker: h.broker, binary: h.binary, neighbours: 3000}
		s.create(b)
		s.learnModel(b)
		out := s.topic(b, id+"-out", 2, nil)
		stop := s.startTransform(b, who, out, messages)
		all := s.measure(b, out, messages, perSecond)
		stop()
		b.Log(who + quantiles(all))
		if i > 1 {
			rounds[who] = append(rounds[who], all)
		}
	}
	b.ReportMetric(0, "ns/op")
	table(b, "latency", "| | p50, ms | p90 | p99 | most |\n|---|---|---|---|---|\n",
		[]string{"| ours" + overRounds(rounds["ours"]) + "\n", "| Python" + overRounds(rounds["Python"]) + "\n"})
}

// BenchmarkLatencyLearning is BenchmarkLatency for transforms of lca-stream alone: one in a process of
// its own, and one next to a learner at full load, which has enough rows before it that it learns
// without a pause for as long as is measured, and publishes as it goes. The transform begins at the end of these rows, or the learner
// would have learnt them before they were whitened. It fails where the learner was done before the measurement.
//
//	go test ./internal/bench -run '^$' -bench LatencyLearning -benchtime 1x
func BenchmarkLatencyLearning(b *testing.B) {
	const messages, perSecond, rounds = 2000, 200, 3
	h := newHall(b)
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	var lines []string
	for range rounds {
		for _, command := range []string{"transform", "run"} {
			id := fmt.Sprintf("learning-%d", time.Now().UnixNano())
			s := &stream{id: id, model: id, dim: 64, rows: 10, messages: 160_000, partitions: 2, broker: h.broker, binary: h.binary, neighbours: 3000}
			s.create(b)
			s.learnModel(b)
			out := s.topic(b, id+"-out", 2, nil)
			config := s.config(b, s.id+"-model", out, true) // the group that owns the model
			s.skipBacklog(b, config)
			p := start(b, s.binary, []string{command, "-c", config})
			s.measure(b, out, 20, 20) // until it is up
			all := s.measure(b, out, messages, perSecond)
			share := "–"
			if command == "run" { // the share of the backlog that was learnt when the last message was out
				learnt := p.value(b, "lca_learnt_rows_total")
				if share = fmt.Sprintf("%.0f %%", 100*learnt/float64(s.messages*s.rows)); learnt > float64(s.messages*s.rows) {
					b.Fatal("the learner had nothing left to do")
				}
			}
			p.kill()
			line := "| `" + command + "`" + quantiles(all) + " " + share + " |\n"
			b.Log(line)
			lines = append(lines, line)
		}
	}
	b.ReportMetric(0, "ns/op")
	table(b, "learning", "| | p50, ms | p90 | p99 | most | of the backlog learnt |\n|---|---|---|---|---|---|\n", lines)
}

// skipBacklog lets a transform that has not begun yet begin at the end of what is there.
func (s *stream) skipBacklog(b *testing.B, config string) {
	b.Helper()
	cmd := exec.Command(s.binary, "offsets", "reset", "-c", config, "--to", "latest", "--stage", "transform", "--watch", "0s")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
}

// shares are the quantiles that tables have; the last one is the longest.
var shares = []float64{.5, .9, .99, 1}

// quantiles are columns of a table: p50, p90, p99 and the longest, in milliseconds.
func quantiles(sorted []time.Duration) string {
	s := " |"
	for _, share := range shares {
		s += fmt.Sprintf(" %.0f |", quantile(sorted, share))
	}
	return s
}

// quantile is in milliseconds.
func quantile(sorted []time.Duration, share float64) float64 {
	return sorted[int(share*float64(len(sorted)-1))].Seconds() * 1e3
}

// overRounds are the columns of [quantiles] for several rounds, each its median, with the lowest and the highest.
func overRounds(rounds [][]time.Duration) string {
	s := " |"
	for _, share := range shares {
		var of []float64
		for _, sorted := range rounds {
			of = append(of, quantile(sorted, share))
		}
		s += fmt.Sprintf(" %.0f (%.0f – %.0f) |", median(of), slices.Min(of), slices.Max(of))
	}
	return s
}

// startTransform begins to transform, and returns once what is there already has come out.
func (s *stream) startTransform(b *testing.B, who, out string, messages int) (stop func()) {
	b.Helper()
	if who == "ours" {
		p := start(b, s.binary, []string{"transform", "-c", s.config(b, s.id+"-ours", out, true)})
		p.awaitCount(b, "lca_transform_rows_total", s.messages*s.rows)
		return func() { p.stop(b) }
	}
	config, err := json.Marshal(map[string]any{
		"brokers": s.broker.Addrs()[0], "input": s.id + "-in", "output": out, "snapshots": s.id + "-snapshots", "group": out,
		"column": "x", "messages": s.messages + messages, "score": true,
	})
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(testtools.BenchPython(b), "testdata/rival.py", "transform", string(config))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s.read(b, out, nil, s.messages, func(*kgo.Record) bool { return true })
	return func() { _ = cmd.Wait() }
}

// measure writes messages at an even pace and returns how long each took, in order of length.
func (s *stream) measure(b *testing.B, out string, messages, perSecond int) []time.Duration {
	b.Helper()
	from := s.ends(b, out) // a reader that must catch up first would measure itself
	producer := client(b, s.broker, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	value, began := messageOf(b, s.dim, s.rows), time.Now().Truncate(time.Millisecond) // as timestamps are
	go func() {
		for i := range messages {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
			producer.Produce(context.Background(), &kgo.Record{Topic: s.id + "-in", Partition: int32(i % s.partitions), Value: value, Timestamp: time.Now()}, nil)
		}
	}()
	var all []time.Duration
	s.read(b, out, from, messages, func(r *kgo.Record) bool {
		if r.Timestamp.Before(began) { // counted as whitened, but not committed when this began
			return false
		}
		all = append(all, time.Since(r.Timestamp))
		return true
	})
	slices.Sort(all)
	return all
}

// ends are where the partitions of a topic end.
func (s *stream) ends(b *testing.B, topic string) map[int32]kgo.Offset {
	b.Helper()
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: s.broker.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var parts []source.Partition
	for id := range s.partitions {
		parts = append(parts, source.Partition{Topic: topic, ID: int32(id)})
	}
	ends, err := source.ListOffsets(context.Background(), c, parts, source.Latest)
	if err != nil {
		b.Fatal(err)
	}
	from := map[int32]kgo.Offset{}
	for p, end := range ends {
		from[p.ID] = kgo.NewOffset().At(end)
	}
	return from
}

// read gives f committed records of a topic, from its beginning where from is nil, until it has counted enough.
func (s *stream) read(b *testing.B, topic string, from map[int32]kgo.Offset, records int, f func(*kgo.Record) (counts bool)) {
	b.Helper()
	where := kgo.ConsumeTopics(topic)
	if from != nil {
		where = kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	}
	reader := client(b, s.broker, where, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(10*time.Millisecond))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for seen := 0; seen < records; {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			b.Fatalf("%d of %d records in %s: %v", seen, records, topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if f(r) {
				seen++
			}
		})
	}
}

func client(b *testing.B, broker *kafkatest.Broker, opts ...kgo.Opt) *kgo.Client {
	b.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(broker.Addrs()...))...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

// BenchmarkPartitions whitens the same rows from topics of more and more partitions: the cost of a row
// must not grow with them.
func BenchmarkPartitions(b *testing.B) {
	h := newHall(b)
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	var lines []string
	for _, partitions := range []int{1, 2, 8, 32} {
		id := fmt.Sprintf("partitions-%d-%d", partitions, time.Now().UnixNano())
		s := &stream{id: id, model: id, dim: 16, rows: 100, messages: 16000, partitions: partitions, broker: h.broker, binary: h.binary, neighbours: 256}
		s.create(b)
		s.learnModel(b)
		r := s.ours(b, "whiten", 0)
		rate := float64(s.messages*s.rows) / r.CPU
		b.ReportMetric(rate, fmt.Sprintf("rows/cpu-s-%d", partitions))
		lines = append(lines, fmt.Sprintf("| %d | %s | %.0f |\n", partitions, thousands(rate), r.RSS))
	}
	b.ReportMetric(0, "ns/op")
	table(b, "partitions", "| partitions | rows per CPU second | MiB |\n|---|---|---|\n", lines)
}
