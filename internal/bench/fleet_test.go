//go:build unix

package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
	"github.com/lca-stream/lca-stream/pipeline/learn"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

const (
	fleetKeys, fleetDim, fleetNeighbours = 10_000, 8, 250
	fleetPartitions                      = 8
	fleetMessages                        = 800_000
)

// BenchmarkFleet is the processor time per message of one row that the transform takes with a model for each of 10 000 keys, next to the
// transform with one model for all: the whole program on Apache Kafka 4.1.0, with a topic that is full before it starts. Keys come uniformly
// or after a Zipf distribution. The first figure is of the second half of the rows, when models that fit into memory are there; the other is of all.
//
//	go test ./internal/bench -run '^$' -bench Fleet -benchtime 1x
//
// ROUNDS is how often each runs in turn (3), CELLS a pattern of the cells such as tenth, TABLES a directory for the table, and PROFILE_DIR one
// for CPU profiles.
func BenchmarkFleet(b *testing.B) {
	f := newFleet(b)
	var lines []string
	late, whole := map[string][]float64{}, map[string][]float64{}
	for range f.rounds {
		for _, c := range fleetCells() {
			if !f.chosen.MatchString(c.name) {
				continue
			}
			r := f.measure(b, c)
			late[c.name], whole[c.name] = append(late[c.name], r.late), append(whole[c.name], r.whole)
			b.Logf("%s: %.2f µs a row in the second half, %.2f of all, %.0f MiB, %v models in memory, %v loaded", c.name, r.late, r.whole, r.RSS, r.models, r.loaded)
		}
	}
	base := median(late[fleetCells()[0].name])
	for _, c := range fleetCells() {
		if len(late[c.name]) > 0 {
			lines = append(lines, fmt.Sprintf("| %s | %.2f | %.2f | %.2f |\n", c.name, median(late[c.name]), median(whole[c.name]), base/median(late[c.name])))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.Logf("%s", lines)
	table(b, "fleet", "| models | µs of CPU a row | with the first half | rows per CPU second, of those with one model |\n|---|---|---|---|\n", lines)
}

// fleetCell is one way to run it.
type fleetCell struct {
	name, keys string // keys: uniform | zipf
	by, memory string
}

func fleetCells() []fleetCell {
	return []fleetCell{
		{"one model for all", "uniform", "none", "512MiB"},
		{"all in memory, uniform", "uniform", "key", "1GiB"},
		{"all in memory, Zipf", "zipf", "key", "1GiB"},
		{"a tenth in memory, Zipf", "zipf", "key", "27MiB"},
	}
}

// fleet is the topics.
type fleet struct {
	*hall
	*stream
	chosen *regexp.Regexp
}

func newFleet(b *testing.B) *fleet {
	h := newHall(b)
	h.broker = kafkatest.Start(b, kafkatest.Kafka41)
	id := fmt.Sprintf("fleet-%d", time.Now().UnixNano())
	f := &fleet{hall: h, stream: &stream{id: id, dim: fleetDim, rows: 1, partitions: fleetPartitions, broker: h.broker, binary: h.binary}, chosen: regexp.MustCompile(os.Getenv("CELLS"))}
	compact := map[string]string{"cleanup.policy": "compact"}
	for _, by := range []string{"none", "key"} {
		n := map[string]int{"none": 1, "key": fleetPartitions}[by]
		f.topic(b, id+"-snapshots-"+by, n, compact)
		f.topic(b, id+"-checkpoints-"+by, n, compact)
	}
	r := rand.New(rand.NewPCG(1, 1))
	zipf, place := rand.NewZipf(r, 1.1, 1, fleetKeys-1), r.Perm(fleetKeys)
	f.fill(b, "uniform", func() int { return r.IntN(fleetKeys) })
	f.fill(b, "zipf", func() int { return place[zipf.Uint64()] })
	f.publish(b)
	return f
}

// put opens a producer, and returns how to write with it.
func (f *fleet) put(b *testing.B) func(messages []sink.Message) {
	b.Helper()
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: f.stream.broker.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	k, err := sink.OpenKafka(b.Context(), sink.KafkaConfig{Cluster: c, TransactionalID: f.id + "-fill", BatchBytes: learn.KeyedBatch})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = k.Close(); c.Close() })
	return func(messages []sink.Message) {
		if err := k.Put(b.Context(), messages, source.Claim{}); err != nil {
			b.Fatal(err)
		}
	}
}

// fill makes an input topic. A key is always in the same partition.
func (f *fleet) fill(b *testing.B, name string, key func() int) {
	b.Helper()
	topic := f.topic(b, f.id+"-"+name, f.partitions, nil)
	values := make([][]byte, 1000)
	for i := range values {
		values[i] = messageOf(b, f.dim, 1)
	}
	put := f.put(b)
	var messages []sink.Message
	for i := range fleetMessages {
		k := key()
		messages = append(messages, sink.Message{Topic: topic, Partition: int32(k % f.partitions), Key: []byte(keyOf(k)), Value: values[i%len(values)]})
		if len(messages) == 10_000 {
			put(messages)
			messages = messages[:0]
		}
	}
}

func keyOf(k int) string { return "machine-" + strconv.Itoa(k) }

// publish writes a model for each key, and one for all.
func (f *fleet) publish(b *testing.B) {
	b.Helper()
	models, put := fleetModels(b, 20), f.put(b)
	var messages []sink.Message
	add := func(id, topic string, partition int32, m *lca.Model) {
		var names []string
		for i := range f.dim {
			names = append(names, fmt.Sprintf("x[%d]", i))
		}
		all, _, err := snapshot.Messages(&snapshot.Snapshot{Model: m, ModelID: id, Version: 600, Features: names, Producer: "bench"}, topic, 2, nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, one := range all {
			one.Partition = partition
			messages = append(messages, one)
		}
	}
	add("default", f.id+"-snapshots-none", 0, models[0])
	for k := range fleetKeys {
		partition := int32(k % f.partitions)
		add(modelkey.ID("default", partition, []byte(keyOf(k))), f.id+"-snapshots-key", partition, models[k%len(models)])
		if len(messages) >= 300 || k == fleetKeys-1 {
			put(messages)
			messages = messages[:0]
		}
	}
}

// fleetModels are models as the learner makes them of 600 rows.
func fleetModels(b *testing.B, n int) (all []*lca.Model) {
	b.Helper()
	for range n {
		c := online.DefaultConfig(fleetDim)
		c.Neighbours = fleetNeighbours
		l, err := online.NewLearner(c)
		if err != nil {
			b.Fatal(err)
		}
		x := mat.NewDense(600, fleetDim, nil)
		for i, v := range clusters(600, fleetDim) {
			x.Set(i/fleetDim, i%fleetDim, float64(v))
		}
		if _, err := l.Learn(x, nil, nil); err != nil {
			b.Fatal(err)
		}
		m, err := l.Model()
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// fleetResult is what a run took.
type fleetResult struct {
	result
	late, whole    float64 // µs of processor time a row
	models, loaded float64
}

// measure runs the transform over a topic.
func (f *fleet) measure(b *testing.B, c fleetCell) fleetResult {
	b.Helper()
	group := fmt.Sprintf("%s-%d", f.id, time.Now().UnixNano())
	path := filepath.Join(b.TempDir(), "fleet.yaml")
	text := fmt.Sprintf(`
kafka: {brokers: [%q]}
source: {topic: %s-%s, group: %s, features: [x]}
model: {by: %s, memory: %s}
snapshot: {topic: %s-snapshots-%s}
checkpoint: {topic: %s-checkpoints-%s}
transform: {topic: %s}
http: {listen: "127.0.0.1:0", debug_endpoints: true}
`, f.stream.broker.Addrs()[0], f.id, c.keys, group, c.by, c.memory, f.id, c.by, f.id, c.by, f.topic(b, group+"-out", f.partitions, nil))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	p := start(b, f.stream.binary, []string{"transform", "-c", path})
	p.awaitCount(b, "lca_transform_rows_total", fleetMessages/2)
	if dir := os.Getenv("PROFILE_DIR"); dir != "" {
		go p.profile(b, filepath.Join(dir, c.keys+c.by+c.memory+".pprof"))
	}
	half, used := p.value(b, "lca_transform_rows_total"), cpuOf(b, p.cmd.Process.Pid)
	p.awaitCount(b, "lca_transform_rows_total", fleetMessages)
	used = cpuOf(b, p.cmd.Process.Pid) - used
	r := fleetResult{late: used / (fleetMessages - half) * 1e6, models: p.value(b, `lca_models\{stage="transform"\}`), loaded: p.value(b, `lca_models_loaded_total\{stage="transform"\}`)}
	r.result = p.stop(b)
	r.whole = r.CPU / fleetMessages * 1e6
	return r
}
