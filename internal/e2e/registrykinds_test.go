//go:build unix

package e2e_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/registry"
)

// kindsSchema has each type of Avro, and one that is declared elsewhere.
const kindsSchema = `{"type":"record","name":"Kinds","namespace":"plant","fields":[
	{"name":"dec","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}},
	{"name":"fix","type":{"type":"fixed","name":"Money","size":8,"logicalType":"decimal","precision":18,"scale":3}},
	{"name":"day","type":{"type":"int","logicalType":"date"}},
	{"name":"time_ms","type":{"type":"int","logicalType":"time-millis"}},
	{"name":"time_us","type":{"type":"long","logicalType":"time-micros"}},
	{"name":"at_ms","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"at_us","type":{"type":"long","logicalType":"timestamp-micros"}},
	{"name":"local","type":{"type":"long","logicalType":"local-timestamp-millis"}},
	{"name":"unit","type":{"type":"enum","name":"Unit","symbols":["KELVIN","BAR"]}},
	{"name":"vec","type":{"type":"array","items":"double"}},
	{"name":"holes","type":{"type":"array","items":["null","long"]}},
	{"name":"tags","type":{"type":"map","values":"float"}},
	{"name":"either","type":["null","long","double"]},
	{"name":"none","type":["null","string"]},
	{"name":"raw","type":"bytes"},
	{"name":"ok","type":"boolean"},
	{"name":"place","type":"plant.Place"},
	{"name":"was","type":["null","plant.Place"]}]}`

const kindsProto = `syntax = "proto3"; package plant;
import "plant/place.proto"; import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/wrappers.proto";
enum Unit { KELVIN = 0; BAR = 1; }
message Kinds {
	message Inner { message Deep { sint64 n = 1; } Deep deep = 1; optional int32 set = 2; optional int32 unset = 3; int32 zero = 4; }
	Inner inner = 1; repeated Inner all = 2; repeated double vec = 3; map<string, float> tags = 4; Unit unit = 5;
	oneof one { string text = 6; int64 number = 7; }
	google.protobuf.Timestamp at = 8; google.protobuf.Duration took = 9;
	google.protobuf.DoubleValue double = 10; google.protobuf.Int64Value long = 11; google.protobuf.StringValue string = 12; google.protobuf.BoolValue none = 13;
	Place place = 14; bytes raw = 15; bool ok = 16; fixed64 fixed = 17; uint32 small = 18;
}`

const oldProto = `syntax = "proto2";
message First {}
message Old { required int32 id = 1; optional double set = 2; optional double unset = 3; optional double given = 4 [default = 1.5]; repeated int32 list = 5; }`

// testKinds reads one message of each type of each format, as the serializers of confluent-kafka have written them.
func testKinds(t *testing.T, b *kafkatest.Broker, r *kafkatest.Registry) {
	avros, protobufs := &stream{Broker: b, t: t, name: "avro-kinds"}, &stream{Broker: b, t: t, name: "protobuf-kinds"}
	for _, s := range []*stream{avros, protobufs} {
		b.CreateTopic(t, s.topic("in"), 1, nil)
	}
	place := map[string]any{"c": 1.5, "room": "hall"}
	avros.writeRows(r, "AVRO", kindsSchema, []map[string]any{{
		"dec": map[string]any{"$decimal": "-123.45"}, "fix": map[string]any{"$decimal": "12.345"}, "day": map[string]any{"$date": "2026-11-22"},
		"time_ms": map[string]any{"$time": "13:45:00.250"}, "time_us": map[string]any{"$time": "13:45:00.000250"},
		"at_ms": map[string]any{"$timestamp": "2026-11-22T13:45:00.250+00:00"}, "at_us": map[string]any{"$timestamp": "1969-12-31T23:59:59.999999+00:00"}, "local": map[string]any{"$timestamp": "2026-11-22T13:45:00.250"},
		"unit": "BAR", "vec": []float64{1, 2.5}, "holes": []any{7, nil}, "tags": map[string]any{"x": 0.5}, "either": 2.5, "none": nil,
		"raw": map[string]any{"$bytes": "AQI="}, "ok": true, "place": place, "was": nil,
	}}, placeReference)
	inner := map[string]any{"deep": map[string]any{"n": -5}, "set": 0}
	protobufs.writeProtobuf(r,
		protobufOf(t, "plant/kinds.proto", map[string]string{"plant/kinds.proto": kindsProto, "plant/place.proto": placeProto}, "plant.Kinds", map[string]any{
			"inner": inner, "all": []any{inner, map[string]any{}}, "vec": []float64{1, 2.5}, "tags": map[string]any{"x": 0.5}, "unit": "BAR", "number": 7,
			"at": "2026-11-22T13:45:00.250001Z", "took": "-1.5s", "double": 0, "long": 9, "string": "", "place": place, "raw": "AQI=", "ok": true, "fixed": 1 << 53, "small": 1<<32 - 1,
		}),
		protobufOf(t, "plant/kinds.proto", map[string]string{"plant/kinds.proto": kindsProto, "plant/place.proto": placeProto}, "plant.Kinds.Inner.Deep", map[string]any{"n": 1}),
		protobufOf(t, "old.proto", map[string]string{"old.proto": oldProto}, "Old", map[string]any{"id": 3, "set": 0, "list": []int{-1, 300}}))

	client, err := registry.Open(registry.Config{URL: r.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d, err := format.NewDecoder(format.Config{Registry: client})
	if err != nil {
		t.Fatal(err)
	}
	written := append(b.ReadCommitted(t, avros.topic("in")), b.ReadCommitted(t, protobufs.topic("in"))...)
	want := []string{
		`[{"at_ms":"2026-11-22 13:45:00.25","at_us":"1969-12-31 23:59:59.999999","day":"2026-11-22","dec":"-123.45","either":2.5,"fix":"12.345","holes":[7,null],"local":"2026-11-22 13:45:00.25","none":null,"ok":true,` +
			`"place":{"c":1.5,"room":"hall"},"raw":"AQI=","tags":[{"key":"x","value":0.5}],"time_ms":"13:45:00.25","time_us":"13:45:00.00025","unit":"BAR","vec":[1,2.5],"was":null}]`,
		`[{"inner":{"deep":{"n":-5},"set":0,"unset":null,"zero":0},"all":[{"deep":{"n":-5},"set":0,"unset":null,"zero":0},{"deep":null,"set":null,"unset":null,"zero":0}],"vec":[1,2.5],"tags":[{"key":"x","value":0.5}],"unit":"BAR",` +
			`"text":null,"number":7,"at":"2026-11-22 13:45:00.250001","took":"-1500000us","double":0,"long":9,"string":"","none":null,"place":{"c":1.5,"room":"hall"},"raw":"AQI=","ok":true,"fixed":9007199254740992,"small":4294967295}]`,
		`[{"n":1}]`,
		`[{"id":3,"set":0,"unset":null,"given":1.5,"list":[-1,300]}]`,
	}
	if len(written) != len(want) {
		t.Fatalf("%d messages", len(written))
	}
	for i, m := range written {
		rec, err := d.Decode(t.Context(), m.Value, "")
		if err != nil {
			t.Fatal(err)
		}
		var got, wanted any
		text, err := rec.MarshalJSON()
		if err != nil || json.Unmarshal(text, &got) != nil || json.Unmarshal([]byte(want[i]), &wanted) != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("message %d: %s\n%s", i, text, diff)
		}
		rec.Release()
	}
}
