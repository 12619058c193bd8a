//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/sink/snapshot"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

const (
	keyedPartitions = 4
	keyedKeys       = 48 // of all partitions: more than fit into model.memory
	keyedMessages   = 6000
)

// fleet is models of keys on the snapshot topic, and the messages that they whiten.
type fleet struct {
	*stream
	random *rand.Rand
	models []*lca.Model
	slots  map[string]snapshot.Slots
	newest map[string]uint64
	as     map[string]*lca.Model // id and version → model
}

// Two transforms with less memory than their models take, killed and started again while new models come, write each message once,
// whitened by a model of its own key, and versions never go back within a key.
func TestKeyedTransform(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		f := newFleet(t, b)
		for range 2 * keyedKeys {
			f.publish()
		}
		one, two := f.program("transform"), f.program("transform")
		for part := range 4 {
			f.load(keyedMessages / 4)
			for range keyedKeys / 2 {
				f.publish()
			}
			switch part {
			case 0:
				one.Kill()
				one.start()
			case 1:
				two.stop()
			case 2:
				one.Kill()
				two.start()
				one.start()
			}
		}
		f.await(f.name, keyedMessages, one, two)
		one.stop()
		two.stop()
		f.verify()
	})
}

func newFleet(t *testing.T, b *kafkatest.Broker) *fleet {
	s := &stream{Broker: b, t: t, name: "keyed", dir: t.TempDir()}
	s.file = s.dir + "/stream.yaml"
	text := fmt.Sprintf(`kafka: {brokers: [%s]}
source: {topic: keyed-in, group: keyed, features: [a, b, c]}
model: {by: key, memory: 1MiB}
snapshot: {topic: keyed-snap}
checkpoint: {topic: keyed-check}
transform: {topic: keyed-out, until_model: pass_through}
http: {listen: ""}
`, b.Addrs()[0])
	if err := os.WriteFile(s.file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	compacted := map[string]string{"cleanup.policy": "compact"}
	b.CreateTopic(t, "keyed-in", keyedPartitions, nil)
	b.CreateTopic(t, "keyed-out", keyedPartitions, nil)
	b.CreateTopic(t, "keyed-snap", keyedPartitions, compacted)
	b.CreateTopic(t, "keyed-check", keyedPartitions, compacted)
	b.CreateTopic(t, "keyed-out-state", keyedPartitions, compacted)
	f := &fleet{stream: s, random: rand.New(rand.NewPCG(1, 2)), slots: map[string]snapshot.Slots{}, newest: map[string]uint64{}, as: map[string]*lca.Model{}}
	for i := range 6 {
		x := mat.NewDense(200, 3, nil)
		x.Apply(func(_, j int, _ float64) float64 { return f.random.NormFloat64()*float64(1+i+j) + float64(i) }, x)
		c := lca.DefaultConfig()
		c.MaxIter = 2
		m, err := lca.Fit(context.Background(), x, c)
		if err != nil {
			t.Fatal(err)
		}
		f.models = append(f.models, m)
	}
	return f
}

// key returns a key and its partition. The last two have no model.
func (f *fleet) key() (key string, partition int32) {
	i := f.random.IntN(keyedKeys + 2)
	return fmt.Sprintf("machine %d", i), int32(i % keyedPartitions)
}

// idOf is the id of a key's model.
func idOf(partition int32, key string) string {
	return fmt.Sprintf("default/%d/%s", partition, strings.ReplaceAll(key, " ", "%20"))
}

// publish writes a newer model of one key.
func (f *fleet) publish() {
	key, partition := f.key()
	if partition >= keyedPartitions || key == fmt.Sprintf("machine %d", keyedKeys) || key == fmt.Sprintf("machine %d", keyedKeys+1) {
		return
	}
	id := idOf(partition, key)
	m := f.models[f.random.IntN(len(f.models))]
	f.newest[id]++
	version := f.newest[id]
	f.as[id+" "+strconv.FormatUint(version, 10)] = m
	messages, slots, err := snapshot.Messages(&snapshot.Snapshot{
		Model: m, ModelID: id, Version: version, Number: version, Features: []string{"a", "b", "c"}, Group: f.name,
		Offsets: source.Offsets{{Topic: f.topic("in"), ID: partition}: int64(version)},
	}, f.topic("snap"), 2, f.slots[id])
	if err != nil {
		f.t.Fatal(err)
	}
	f.slots[id] = slots
	for i := range messages {
		messages[i].Partition = partition
	}
	f.put(messages)
}

// load writes messages, each of a row.
func (f *fleet) load(n int) {
	var messages []sink.Message
	for range n {
		key, partition := f.key()
		value := fmt.Appendf(nil, `{"a":%v,"b":%v,"c":%v}`, f.random.NormFloat64(), f.random.NormFloat64(), f.random.NormFloat64())
		messages = append(messages, sink.Message{Topic: f.topic("in"), Partition: partition, Key: []byte(key), Value: value})
	}
	f.put(messages)
}

func (f *fleet) put(messages []sink.Message) {
	f.t.Helper()
	c, err := kafkaconn.Open(kafkaconn.Config{Brokers: f.Addrs()})
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	k, err := sink.OpenKafka(context.Background(), sink.KafkaConfig{Cluster: c, TransactionalID: f.name + "-producer"})
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	if err := k.Put(context.Background(), messages, source.Claim{}); err != nil {
		f.t.Fatal(err)
	}
}

// verify reads the output.
func (f *fleet) verify() {
	f.t.Helper()
	type place struct {
		partition int32
		offset    string
	}
	seen, versions, whitened := map[place]bool{}, map[string]uint64{}, 0
	for _, r := range f.ReadCommitted(f.t, f.topic("out")) {
		at := place{r.Partition, recordHeader(r, "lca-source-offset")}
		if seen[at] || recordHeader(r, "lca-source-partition") != fmt.Sprint(r.Partition) {
			f.t.Fatalf("offset %s of partition %d comes twice, or in another partition", at.offset, r.Partition)
		}
		seen[at] = true
		id := idOf(r.Partition, string(r.Key))
		version, err := strconv.ParseUint(recordHeader(r, "lca-model-version"), 10, 64)
		if err != nil || recordHeader(r, "lca-model-id") != id || version < versions[id] {
			f.t.Fatalf("key %s: model %s version %d after %d: %v", r.Key, recordHeader(r, "lca-model-id"), version, versions[id], err)
		}
		versions[id] = version
		var row struct {
			A, B, C float64
			LCA     []float64 `json:"lca"`
		}
		if err := json.Unmarshal(r.Value, &row); err != nil {
			f.t.Fatal(err)
		}
		m := f.as[id+" "+strconv.FormatUint(version, 10)]
		if m == nil {
			if version != 0 || row.LCA != nil {
				f.t.Fatalf("key %s: there was no version %d", r.Key, version)
			}
			continue
		}
		whitened++
		var y mat.Dense
		m.Whiten(&y, mat.NewDense(1, 3, []float64{row.A, row.B, row.C}))
		for j, got := range row.LCA {
			if want := y.At(0, j); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
				f.t.Fatalf("key %s version %d: %v, want %v", r.Key, version, row.LCA, y.RawRowView(0))
			}
		}
	}
	if len(seen) != keyedMessages || whitened < keyedMessages*8/10 {
		f.t.Errorf("%d messages became %d, of which %d were whitened", keyedMessages, len(seen), whitened)
	}
	f.t.Logf("%d messages, %d whitened under %d models", len(seen), whitened, len(versions))
}
