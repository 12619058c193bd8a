//go:build unix

package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/sink"
)

// BenchmarkFleetLearners is the processor time per message of one row that `learn` takes with a model for each of KEYS keys (10,000), next to
// one model for all: the whole program on Apache Kafka 4.1.0, with a topic of MESSAGES (2,000,000) that is full before it starts. A process that finds
// all models on the topics is started afterwards, with a row in each partition: its time is from its start until it has taken these rows.
//
//	go test ./internal/bench -run '^$' -bench FleetLearners -benchtime 1x -timeout 2h
//
// ROUNDS is how often each runs in turn (3), CELLS a pattern of the cells, SET settings such as lca.model=lca_gauss, TABLES a directory for the table and
// PROFILE_DIR one for CPU profiles and what is on the heap at the end.
func BenchmarkFleetLearners(b *testing.B) {
	f := newLearntFleet(b)
	cpu, rss, bytes, start := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	cells := []fleetCell{
		{"one model for all", "uniform", "none", "512MiB"},
		{"all in memory, uniform", "uniform", "key", "2GiB"},
		{"all in memory, Zipf", "zipf", "key", "2GiB"},
		{"a tenth in memory, Zipf", "zipf", "key", fmt.Sprintf("%dKiB", f.keys*learnerKiB/10)},
	}
	for range f.rounds {
		for _, c := range cells {
			if !f.chosen.MatchString(c.name) {
				continue
			}
			r := f.learn(b, c)
			cpu[c.name], rss[c.name] = append(cpu[c.name], r.CPU/float64(f.messages)*1e6), append(rss[c.name], r.RSS)
			bytes[c.name], start[c.name] = append(bytes[c.name], r.saved/float64(f.messages)), append(start[c.name], r.start)
			b.Logf("%s: %.2f µs a row, %.0f MiB with model.memory %s, %v models in memory, %v loaded, %.0f bytes of checkpoints a row, the next process takes rows after %.2f s",
				c.name, r.CPU/float64(f.messages)*1e6, r.RSS, c.memory, r.models, r.loaded, r.saved/float64(f.messages), r.start)
		}
	}
	var lines []string
	for _, c := range cells {
		if n := c.name; len(cpu[n]) > 0 && len(cpu[cells[0].name]) > 0 { // a share needs what it is a share of
			lines = append(lines, fmt.Sprintf("| %s | %.2f | %.2f | %.0f | %.0f | %.2f |\n", n, median(cpu[n]), median(cpu[cells[0].name])/median(cpu[n]), median(rss[n]), median(bytes[n]), median(start[n])))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.Logf("%s", lines)
	table(b, "fleetlearners", "| models | µs of CPU a row | rows per CPU second, of those with one model | RSS, MiB | bytes of checkpoints a row | s from a start to its first rows |\n|---|---|---|---|---|---|\n", lines)
}

// learnerKiB is what a learner of these rows and neighbours takes.
const learnerKiB = 54

// learntFleet has topics with rows of their own, so that no row is a near copy of another.
type learntFleet struct {
	*fleet
	keys, messages int
}

func newLearntFleet(b *testing.B) *learntFleet {
	h := newHall(b)
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	id := fmt.Sprintf("fleet-%d", time.Now().UnixNano())
	f := &learntFleet{fleet: &fleet{hall: h, stream: &stream{id: id, dim: fleetDim, rows: 1, partitions: fleetPartitions, broker: h.broker, binary: h.binary}, chosen: regexp.MustCompile(os.Getenv("CELLS"))}}
	f.keys, f.messages = number("KEYS", fleetKeys), number("MESSAGES", 2_000_000)
	r := rand.New(rand.NewPCG(1, 1))
	zipf, place := rand.NewZipf(r, 1.1, 1, uint64(f.keys-1)), r.Perm(f.keys)
	f.fillAnew(b, "uniform", func() int { return r.IntN(f.keys) })
	f.fillAnew(b, "zipf", func() int { return place[zipf.Uint64()] })
	return f
}

// number is a number of the environment.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// fillAnew makes an input topic, each message with a row of its own.
func (f *learntFleet) fillAnew(b *testing.B, name string, key func() int) {
	b.Helper()
	topic, put := f.topic(b, f.id+"-"+name, f.partitions, nil), f.put(b)
	var messages []sink.Message
	for i := range f.messages {
		k := key()
		messages = append(messages, sink.Message{Topic: topic, Partition: int32(k % f.partitions), Key: []byte(keyOf(k)), Value: messageOf(b, f.dim, 1)})
		if len(messages) == 10_000 || i == f.messages-1 {
			put(messages)
			messages = messages[:0]
		}
	}
}

// learnt is what a run of the learner took.
type learnt struct {
	result
	models, loaded, saved, start float64
}

// learn runs the learner over a topic, and then another that finds nothing to learn but one row in each partition.
func (f *learntFleet) learn(b *testing.B, c fleetCell) (r learnt) {
	b.Helper()
	group, args := f.learner(b, c)
	p := start(b, f.stream.binary, args)
	if dir := os.Getenv("PROFILE_DIR"); dir != "" {
		go p.profile(b, filepath.Join(dir, c.keys+c.by+c.memory+".pprof"))
	}
	p.awaitCount(b, "lca_source_rows_total", f.messages)
	p.await(b, `^lca_source_lag_records.* 0$`)
	if dir := os.Getenv("PROFILE_DIR"); dir != "" {
		p.save(b, "heap", filepath.Join(dir, c.keys+c.by+c.memory+".heap"))
	}
	r.models, r.loaded = p.value(b, `lca_models\{stage="learn"\}`), p.value(b, `lca_models_loaded_total\{stage="learn"\}`)
	r.result = p.stop(b)
	r.saved = float64(f.stream.broker.LogBytes(b, group+"-checkpoints"))
	r.start = f.restart(b, args, f.id+"-"+c.keys, "lca_source_rows_total")
	return r
}

// learner makes the topics of a group, and returns the arguments of its learners.
func (f *learntFleet) learner(b *testing.B, c fleetCell) (group string, args []string) {
	b.Helper()
	group = fmt.Sprintf("%s-%d", f.id, time.Now().UnixNano())
	partitions := map[string]int{"none": 1, "key": f.partitions}[c.by]
	compact := map[string]string{"cleanup.policy": "compact"}
	path := filepath.Join(b.TempDir(), group+".yaml")
	text := fmt.Sprintf(`
kafka: {brokers: [%q]}
source: {topic: %s-%s, group: %s, features: [x]}
model: {by: %s, memory: %s}
lca: {neighbours: %d}
snapshot: {topic: %s}
checkpoint: {topic: %s}
memory: {limit: 8GiB}
http: {listen: "127.0.0.1:0", debug_endpoints: true}
`, f.stream.broker.Addrs()[0], f.id, c.keys, group, c.by, c.memory, fleetNeighbours, f.topic(b, group+"-snapshots", partitions, compact), f.topic(b, group+"-checkpoints", partitions, compact))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	args = []string{"learn", "-c", path}
	for set := range strings.FieldsSeq(os.Getenv("SET")) {
		args = append(args, "--set", set)
	}
	return group, args
}

// restart starts a program with one new row in each partition, and returns the seconds until it has taken them all: from the
// start of the process, which is before its partitions are assigned.
func (f *learntFleet) restart(b *testing.B, args []string, topic, metric string) float64 {
	b.Helper()
	var messages []sink.Message
	for p := range f.partitions {
		messages = append(messages, sink.Message{Topic: topic, Partition: int32(p), Key: []byte(keyOf(p)), Value: messageOf(b, f.dim, 1)})
	}
	f.put(b)(messages)
	began := time.Now()
	p := start(b, f.stream.binary, args)
	for p.value(b, metric) < float64(f.partitions) {
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(began).Seconds()
	p.stop(b)
	return took
}
