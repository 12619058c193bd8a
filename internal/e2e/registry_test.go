//go:build unix

package e2e_test

import (
	wire "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// Readings of a plant: the second schema has a field more and one less, and a wider number.
const (
	placeSchema   = `{"type":"record","name":"Place","namespace":"plant","fields":[{"name":"c","type":"float"},{"name":"room","type":"string"}]}`
	readingSchema = `{"type":"record","name":"Reading","namespace":"plant","fields":[{"name":"id","type":"string"},{"name":"a","type":"int"},{"name":"b","type":["null","double"]},` +
		`{"name":"place","type":"plant.Place"},{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"},"default":0}]}`
	laterSchema = `{"type":"record","name":"Reading","namespace":"plant","fields":[{"name":"id","type":"string"},{"name":"a","type":"double"},{"name":"b","type":["null","double"]},` +
		`{"name":"place","type":"plant.Place"},{"name":"note","type":["null","string"],"default":null}]}`
	plantFeatures = "[a, b, place.c]"
)

var placeReference = kafkatest.Reference{Name: "plant.Place", Subject: "place", Version: 1}

// What is behind a schema registry is whitened by its own schemas, as other programs write it.
func TestRegistry(t *testing.T) {
	t.Parallel()
	b, r := kafkatest.Shared(t, kafkatest.Kafka41), kafkatest.StartRegistry(t)
	r.Register("place", "AVRO", placeSchema)
	// First, because a registry that was away has only the schemas that the test itself has registered.
	t.Run("away", func(t *testing.T) { testRegistryAway(t, b, r) })
	t.Run("avro", func(t *testing.T) { testAvroTopic(t, b, r) })
	t.Run("protobuf", func(t *testing.T) { testProtobufTopic(t, b, r) })
	t.Run("kinds", func(t *testing.T) { testKinds(t, b, r) })
	t.Run("json schema", func(t *testing.T) { testJSONSchemaTopic(t, b, r) })
	t.Run("killed", func(t *testing.T) { testRegistryKilled(t, b, r) })
	t.Run("first", func(t *testing.T) { testRegistryFirst(t, b, r) })
	t.Run("refuses", func(t *testing.T) { testRegistryRefuses(t, b, r) })
	t.Run("avro of json", func(t *testing.T) { testJSONAsAvroTopic(t, b, r) })
}

// rowModel has the first model score rows: no young one comes before it, with which lca and its score are null.
var rowModel = []string{"--set", "lca.warmup_rows=100"}

// registered is a stream whose programs are given the registry.
func registered(r *kafkatest.Registry, args ...string) []string {
	return append(args, "--set", "source.registry.url="+r.URL)
}

// readings are rows of a schema; each tenth has a null.
func readings(n int, later bool) (rows []map[string]any) {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range n {
		a := rng.NormFloat64() * 10
		row := map[string]any{"id": fmt.Sprintf("r%d", i), "a": int32(a), "b": a + rng.NormFloat64(), "place": map[string]any{"c": float32(rng.NormFloat64()), "room": "hall"}}
		if i%10 == 9 {
			row["b"] = nil
		}
		if later {
			row["a"], row["note"] = a, "later"
		} else {
			row["at"] = int64(1_700_000_000_000 + i)
		}
		rows = append(rows, row)
	}
	return rows
}

// writeRows writes rows with the serializers of confluent-kafka.
func (s *stream) writeRows(r *kafkatest.Registry, schemaType, schema string, rows []map[string]any, references ...kafkatest.Reference) {
	s.t.Helper()
	r.Register(s.topic("in")+"-value", schemaType, schema, references...) // what is written registers it again, under the same id
	job, err := json.Marshal(map[string]any{
		"brokers": strings.Join(s.Addrs(), ","), "registry": r.URL, "topic": s.topic("in"),
		"type": schemaType, "schema": schema, "references": references, "rows": rows,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	testtools.RunPython(s.t, "testdata/registry_write.py", string(job))
}

// write writes values as they are.
func (s *stream) write(values ...[]byte) {
	s.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	var all []*kgo.Record
	for _, v := range values {
		all = append(all, &kgo.Record{Topic: s.topic("in"), Value: v})
	}
	if err := c.ProduceSync(s.t.Context(), all...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// deadCodes counts the dead letters by their codes.
func (s *stream) deadCodes() map[string]int {
	s.t.Helper()
	codes := map[string]int{}
	for _, d := range s.ReadCommitted(s.t, s.topic("dead")) {
		for _, h := range d.Headers {
			if h.Key == "lca-error-code" {
				codes[string(h.Value)]++
			}
		}
	}
	return codes
}

// prefixed is a value that names a schema.
func prefixed(id int, body ...byte) []byte {
	return append(wire.BigEndian.AppendUint32([]byte{0}, uint32(id)), body...)
}

func testAvroTopic(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	s := newStream(t, b, "avro", settings{partitions: 3, features: plantFeatures, why: 2})
	s.writeRows(r, "AVRO", readingSchema, readings(400, false), placeReference)
	s.writeRows(r, "AVRO", laterSchema, readings(300, true), placeReference)
	id := r.Register("avro-in-value", "AVRO", readingSchema, placeReference)
	s.write(prefixed(id), prefixed(id, 0xff, 0xff, 0xff), prefixed(99_999, 1, 2, 3), []byte{0, 1})
	s.writeRows(r, "AVRO", readingSchema, readings(100, false), placeReference)
	for command, says := range map[string]string{
		"doctor":  "registry",
		"inspect": "place.c",
	} {
		args := registered(r, command)
		if command == "inspect" {
			args = append(args, s.topic("in"), "-n", "3")
		}
		if out := s.command(args...); !strings.Contains(out, says) {
			t.Errorf("%s does not say %q:\n%s", command, says, out)
		}
	}
	s.refusesAnotherServer(r)
	run := s.program(registered(r, append([]string{"run"}, rowModel...)...)...)
	s.await(s.name, 804, run)
	run.stop()
	if diff := cmp.Diff(map[string]int{"avro_invalid": 2, "schema_unknown": 1, "format_unknown": 1}, s.deadCodes()); diff != "" {
		t.Error("dead letters:", diff)
	}
	s.readsBack(r, "AVRO", 3, "800 720")
	s.packageReads(r, 800, 720)
	whitened := 0
	for _, line := range s.sinkReads(r, 800) {
		if strings.HasPrefix(line, "Struct{id=r") && strings.Contains(line, ",lca=[") {
			whitened++
		}
	}
	if whitened != 720 {
		t.Errorf("a sink of Kafka Connect has %d rows with lca, not 720", whitened)
	}
}

// readsBack reads the output with the deserializers of confluent-kafka: it is the input with fields of ours.
func (s *stream) readsBack(r *kafkatest.Registry, schemaType string, width int, want string) {
	s.t.Helper()
	job, err := json.Marshal(map[string]any{
		"brokers": strings.Join(s.Addrs(), ","), "registry": r.URL, "input": s.topic("in"), "output": s.topic("out"), "type": schemaType, "width": width,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if got := strings.TrimSpace(testtools.RunPython(s.t, "testdata/registry_read.py", string(job))); got != want {
		s.t.Errorf("outputs, and those with lca: %s, want %s", got, want)
	}
}

// ready asks the program whether it is.
func (p *program) ready() (code int, said string) {
	p.s.t.Helper()
	log, err := os.ReadFile(p.log)
	if err != nil {
		p.s.t.Fatal(err)
	}
	page := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).Find(log)
	answer, err := http.Get(string(page) + "ready")
	if err != nil {
		p.s.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.s.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}
