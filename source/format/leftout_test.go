package format

import (
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What no column can hold is said once for each message of a schema, by its path, and counted value by value. Where the columns that are read are none of
// these, nothing is left out.
func TestLeftOut(t *testing.T) {
	const node = "plant.Node"
	proto := &Schema{ID: 1, Type: SchemaProtobuf, Text: protoAll + `message Holder { double x = 1; map<string, Node> by = 2; repeated Node all = 3; Node one = 4; }`}
	avro := &Schema{ID: 1, Type: SchemaAvro, Text: record(field("x", `"double"`), field("next", `["null","test.Row"]`), field("all", `{"type":"array","items":"test.Row"}`),
		field("by", `{"type":"map","values":{"type":"record","name":"In","fields":[{"name":"y","type":"int"},{"name":"in","type":["null","In"]}]}}`))}
	leaf := map[string]any{"x": 2.5, "next": nil, "all": []any{}, "by": map[string]any{}}
	for _, c := range []struct {
		name    string
		schema  *Schema
		value   []byte
		columns []string
		want    []LeftOut
		values  uint64
	}{
		{"Protobuf", proto, protoValue(t, proto, []int{1}, `id: 4 next { id: 5 } more { id: 6 } more { id: 7 }`), nil, []LeftOut{{Of: node, Paths: []string{"next", "more"}}}, 3},
		{"Protobuf within", proto, protoValue(t, proto, []int{2}, `x: 1 by { key: "a" value { next { id: 1 } } } all { id: 1 more { id: 2 } } one { id: 3 }`), nil,
			[]LeftOut{{Of: "plant.Holder", Paths: []string{"by.next", "by.more", "all.next", "all.more", "one.next", "one.more"}}}, 2},
		{"nothing there", proto, protoValue(t, proto, []int{1}, `id: 4`), nil, []LeftOut{{Of: node, Paths: []string{"next", "more"}}}, 0},
		{"other columns", proto, protoValue(t, proto, []int{1}, `id: 4 next { id: 5 }`), []string{"id"}, nil, 0},
		{"no such thing", proto, protoValue(t, proto, []int{0}, ``), nil, nil, 0},
		{"Avro", avro, written(t, 1, avro.Text, map[string]any{"x": 1.5, "next": leaf, "all": []any{leaf, leaf}, "by": map[string]any{"k": map[string]any{"y": 1, "in": map[string]any{"y": 2, "in": nil}}}}), nil,
			[]LeftOut{{Of: "Row", Paths: []string{"next", "all", "by.in"}}}, 3},
		{"nothing there, Avro", avro, written(t, 1, avro.Text, leaf), nil, []LeftOut{{Of: "Row", Paths: []string{"next", "all", "by.in"}}}, 0},
		{"other columns, Avro", avro, written(t, 1, avro.Text, map[string]any{"x": 1.5, "next": leaf, "all": []any{}, "by": map[string]any{}}), []string{"x"}, nil, 0},
	} {
		var got []LeftOut
		var values atomic.Uint64
		d := newDecoder(t, Config{Registry: protoRegistry{1: c.schema}, Columns: c.columns, Only: c.columns != nil, LeftOut: func(l LeftOut) { got = append(got, l) }, LeftOutValues: &values})
		for range 2 {
			rec, err := d.Decode(t.Context(), c.value, "")
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			rec.Release()
		}
		if diff := cmp.Diff(c.want, got); diff != "" || values.Load() != 2*c.values {
			t.Errorf("%s: %d values, want %d; %s", c.name, values.Load(), 2*c.values, diff)
		}
	}
}
