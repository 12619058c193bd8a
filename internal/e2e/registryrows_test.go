//go:build unix

package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// A nested message of a schema that imports another, its types and those of google/protobuf; the schema is registered as
// descriptors in base64.
func testProtobufTopic(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	s := newStream(t, b, "protobuf", settings{partitions: 1, features: "[inner.a, inner.b, place.c, inner.w, vec.1]"})
	var rows []map[string]any
	rng := rand.New(rand.NewPCG(4, 1))
	for i := range 500 {
		a := rng.NormFloat64() * 10
		inner := map[string]any{"a": int(a), "b": a + rng.NormFloat64(), "w": rng.NormFloat64()}
		if i%10 == 9 {
			delete(inner, "b") // which is then null
		}
		rows = append(rows, map[string]any{"id": fmt.Sprint("r", i), "inner": inner, "place": map[string]any{"c": float32(rng.NormFloat64()), "room": "hall"},
			"at": "2026-01-02T03:04:05.678Z", "vec": []float64{1, rng.NormFloat64()}})
	}
	job, err := json.Marshal(map[string]any{"brokers": strings.Join(s.Addrs(), ","), "registry": r.URL, "topic": s.topic("in"), "rows": rows})
	if err != nil {
		t.Fatal(err)
	}
	testtools.RunPython(t, "testdata/registry_protobuf.py", string(job))
	written := b.ReadCommitted(t, s.topic("in"))
	s.write(append(written[0].Value[:5:5], 0), append(written[0].Value[:9:9], 0xff), written[0].Value[:4])
	out := s.command(registered(r, "inspect", s.topic("in"), "-n", "20")...)
	for _, says := range []string{"inner.a ", "inner.w ", "place.room ", "timestamp"} {
		if !strings.Contains(out, says) {
			t.Errorf("inspect does not say %q:\n%s", says, out)
		}
	}
	run := s.program(registered(r, "run", "--set", "transform.format=arrow")...)
	s.await(s.name, 503, run)
	run.stop()
	if dead, n := s.deadCodes(), len(b.ReadCommitted(t, s.topic("out"))); n != 500 || len(dead) == 0 {
		t.Errorf("%d outputs of 500, dead letters %v", n, dead)
	}
}

// JSON with a schema, which says that a text is a number.
func testJSONSchemaTopic(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	s := newStream(t, b, "jsonschema", settings{partitions: 1, features: "[after.a, after.price]"})
	const schema = `{"$schema":"http://json-schema.org/draft-07/schema#","title":"Change","type":"object","properties":{"op":{"type":"string"},
		"after":{"oneOf":[{"type":"null"},{"type":"object","properties":{"a":{"type":"number"},"price":{"type":"string","format":"decimal"}}}]}}}`
	var rows []map[string]any
	rng := rand.New(rand.NewPCG(5, 1))
	for i := range 400 {
		row := map[string]any{"op": "c", "after": map[string]any{"a": rng.NormFloat64(), "price": fmt.Sprintf("%.2f", 20+rng.NormFloat64())}}
		if i%10 == 9 {
			row = map[string]any{"op": "d", "after": nil}
		}
		rows = append(rows, row)
	}
	s.writeRows(r, "JSON", schema, rows)
	written := b.ReadCommitted(t, s.topic("in"))
	s.write(append(written[0].Value[:5:5], `{"after":{"a":1,"price":"much"}}`...), written[0].Value[:7])
	run := s.program(registered(r, "run")...)
	s.await(s.name, 402, run)
	run.stop()
	if diff := cmp.Diff(map[string]int{"json_type": 1, "json_invalid": 1}, s.deadCodes()); diff != "" {
		t.Error("dead letters:", diff)
	}
	s.readsBack(r, "JSON", 2, "400 360")
}

// Plain JSON becomes Avro that confluent-kafka reads, also where keys come and go; several rows in one message do not.
func testJSONAsAvroTopic(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	s := newStream(t, b, "made", settings{partitions: 1, features: "[a, b]"})
	rng := rand.New(rand.NewPCG(6, 1))
	var values [][]byte
	for i := range 400 {
		row := map[string]any{"id": fmt.Sprintf("r%d", i), "a": rng.NormFloat64(), "b": rng.NormFloat64(), "tags": []float64{1, 2}}
		switch {
		case i%10 == 9:
			row["b"] = nil
		case i%3 == 0:
			row["new"] = true
		}
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, text)
	}
	s.write(append(values, []byte(`[{"a":1,"b":2},{"a":3,"b":4}]`))...)
	run := s.program(registered(r, "run", "--set", "transform.format=avro")...)
	s.await(s.name, 401, run)
	run.stop()
	if diff := cmp.Diff(map[string]int{"output_not_avro": 1}, s.deadCodes()); diff != "" {
		t.Error("dead letters:", diff)
	}
	s.readsBack(r, "MADE", 2, "400 360")
}
