//go:build unix

package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/internal/testtools"
)

// A reading is a nested message that imports another file and those of google/protobuf. The later schema has a field more
// and one less, and a wider number.
const (
	placeProto   = `syntax = "proto3"; package plant; message Place { float c = 1; string room = 2; }`
	readingProto = `syntax = "proto3"; package plant; import "plant/place.proto"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
		message Other {}
		message Envelope { message Reading { message Inner { sint32 a = 1; optional double b = 2; google.protobuf.DoubleValue w = 3; }
		string id = 1; Inner inner = 2; Place place = 3; google.protobuf.Timestamp at = 4; repeated double vec = 5; } }`
	laterProto = `syntax = "proto3"; package plant; import "plant/place.proto"; import "google/protobuf/wrappers.proto";
		message Other {}
		message Envelope { message Reading { message Inner { double a = 1; optional double b = 2; google.protobuf.DoubleValue w = 3; }
		string id = 1; Inner inner = 2; Place place = 3; repeated double vec = 5; string note = 6; } }`
)

// protobufBatch is what registry_protobuf.py writes of one schema.
type protobufBatch struct {
	Files   []byte           `json:"files"`
	Message string           `json:"message"`
	Rows    []map[string]any `json:"rows"`
}

// protobufOf describes the file main, and what it imports.
func protobufOf(t *testing.T, main string, texts map[string]string, message string, rows ...map[string]any) protobufBatch {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(texts)})}
	compiled, err := compiler.Compile(t.Context(), main)
	if err != nil {
		t.Fatal(err)
	}
	set, seen := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(compiled[0])
	files, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return protobufBatch{files, message, rows}
}

// writeProtobuf writes messages with the serializer of confluent-kafka, which registers descriptors in base64.
func (s *stream) writeProtobuf(r *kafkatest.Registry, batches ...protobufBatch) {
	s.t.Helper()
	job, err := json.Marshal(map[string]any{"brokers": strings.Join(s.Addrs(), ","), "registry": r.URL, "topic": s.topic("in"), "batches": batches})
	if err != nil {
		s.t.Fatal(err)
	}
	testtools.RunPython(s.t, "testdata/registry_protobuf.py", string(job))
}

// protobufReadings are rows of a schema; of each tenth an optional field is not there.
func protobufReadings(n int, later bool) (rows []map[string]any) {
	rng := rand.New(rand.NewPCG(4, uint64(n)))
	for i := range n {
		a := rng.NormFloat64() * 10
		inner := map[string]any{"a": int(a), "b": a + rng.NormFloat64(), "w": rng.NormFloat64()}
		if i%10 == 9 {
			delete(inner, "b")
		}
		row := map[string]any{"id": fmt.Sprint("r", i), "inner": inner, "place": map[string]any{"c": float32(rng.NormFloat64()), "room": "hall"}, "vec": []float64{1, rng.NormFloat64()}}
		if later {
			inner["a"], row["note"] = a, "later"
		} else {
			row["at"] = "2026-01-02T03:04:05.678Z"
		}
		rows = append(rows, row)
	}
	return rows
}

func testProtobufTopic(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	s := newStream(t, b, "protobuf", settings{partitions: 1, features: "[inner.a, inner.b, place.c, inner.w, vec.1]"})
	const file, message = "plant/reading.proto", "plant.Envelope.Reading"
	first := map[string]string{file: readingProto, "plant/place.proto": placeProto}
	later := map[string]string{file: laterProto, "plant/place.proto": placeProto}
	s.writeProtobuf(r, protobufOf(t, file, first, message, protobufReadings(500, false)...), protobufOf(t, file, later, message, protobufReadings(200, true)...))
	written := b.ReadCommitted(t, s.topic("in"))
	s.write(append(written[0].Value[:5:5], 0), append(written[0].Value[:9:9], 0xff), written[0].Value[:4], prefixed(99_999, 0, 1))
	out := s.command(registered(r, "inspect", s.topic("in"), "-n", "20")...)
	for _, says := range []string{"inner.a ", "inner.w ", "place.room ", "note "} {
		if !strings.Contains(out, says) {
			t.Errorf("inspect does not say %q:\n%s", says, out)
		}
	}
	run := s.program(registered(r, "run", "--set", "transform.format=arrow")...)
	s.await(s.name, 704, run)
	run.stop()
	if diff := cmp.Diff(map[string]int{"feature_missing": 1, "protobuf_invalid": 1, "format_unknown": 1, "schema_unknown": 1}, s.deadCodes()); diff != "" {
		t.Error("dead letters:", diff)
	}
	if n := len(b.ReadCommitted(t, s.topic("out"))); n != 700 {
		t.Errorf("%d outputs of 700", n)
	}
}

// JSON with a schema, which says that a text is a number.
func testJSONSchemaTopic(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	s := newStream(t, b, "jsonschema", settings{partitions: 1, features: "[after.a, after.price]", why: 2})
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
	const later = `{"$schema":"http://json-schema.org/draft-07/schema#","title":"Change","type":"object","properties":{"op":{"type":"string"},"note":{"type":"string"},
		"after":{"type":"object","properties":{"a":{"type":"integer"},"price":{"type":"number"}}}}}`
	rows = rows[:0]
	for range 100 {
		rows = append(rows, map[string]any{"op": "c", "note": "later", "after": map[string]any{"a": rng.IntN(5), "price": 20 + rng.NormFloat64()}})
	}
	s.writeRows(r, "JSON", later, rows)
	written := b.ReadCommitted(t, s.topic("in"))
	s.write(append(written[0].Value[:5:5], `{"after":{"a":1,"price":"much"}}`...), written[0].Value[:7], prefixed(99_999, '{', '}'))
	run := s.program(registered(r, append([]string{"run"}, rowModel...)...)...)
	s.await(s.name, 503, run)
	run.stop()
	if diff := cmp.Diff(map[string]int{"json_invalid": 1, "schema_unknown": 1}, s.deadCodes()); diff != "" {
		t.Error("dead letters:", diff)
	}
	s.readsBack(r, "JSON", 2, "501 460")
	s.packageReads(r, 501, 460)
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
	run := s.program(registered(r, append([]string{"run", "--set", "transform.format=avro"}, rowModel...)...)...)
	s.await(s.name, 401, run)
	run.stop()
	if diff := cmp.Diff(map[string]int{"output_not_avro": 1}, s.deadCodes()); diff != "" {
		t.Error("dead letters:", diff)
	}
	s.readsBack(r, "MADE", 2, "400 360")
}
