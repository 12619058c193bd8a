package format

import (
	"slices"
	"strings"
	"testing"
)

// What Also names is a column where a message has such a field, and nowhere else. Where Only is not for a format, all is.
func TestAlso(t *testing.T) {
	const schema = `{"type":"record","name":"R","fields":[{"name":"id","type":"string"},{"name":"x","type":"double"},{"name":"in","type":{"type":"record","name":"I","fields":[{"name":"p","type":"long"}]}}%]}`
	clash := strings.Replace(schema, "%", `,{"name":"lca","type":"string"}`, 1)
	plain := strings.Replace(schema, "%", "", 1)
	fields := map[string]any{"id": "a", "x": 1.5, "in": map[string]any{"p": int64(1)}, "lca": "taken"}
	also := []string{"lca", "in.p", "lca_score"}
	for _, c := range []struct {
		name   string
		value  []byte
		schema string
		onlyOf []Format
		want   []string
	}{
		{"JSON without", []byte(`{"id":"a","x":1.5,"in":{"p":1}}`), plain, nil, []string{"x"}},
		{"JSON with", []byte(`{"id":"a","x":1.5,"in":{"p":1},"lca":"taken"}`), plain, nil, []string{"x", "lca"}},
		{"JSON with a key that looks like a path", []byte(`{"x":1.5,"in":{"p":1},"in.p":2}`), plain, nil, []string{"x", "in.p"}},
		{"JSON with, in one row", []byte(`[{"id":"a","x":1.5},{"x":2,"l\u0063a_score":null}]`), plain, nil, []string{"x", "lca_score"}},
		{"JSON with, all of it", []byte(`{"id":"a","x":1.5,"lca":"taken"}`), plain, []Format{Avro}, []string{"id", "x", "lca"}},
		{"Avro without", written(t, 7, plain, fields), plain, nil, []string{"x"}},
		{"Avro with", written(t, 7, clash, fields), clash, nil, []string{"x", "lca"}},
		{"Avro with, all of it", written(t, 7, clash, fields), clash, []Format{JSON}, []string{"id", "x", "in", "lca"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := avroOf(t, Config{Columns: []string{"x"}, Only: true, OnlyOf: c.onlyOf, Also: also}, c.schema)
			for range mostShown + 2 { // no value is read as a whole because it lacks what Also names, and none later less than it should be
				rec, err := d.Decode(t.Context(), c.value, "")
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range rec.Schema().Fields() {
					got = append(got, f.Name)
				}
				rec.Release()
				if !slices.Equal(got, c.want) {
					t.Fatalf("columns %v, want %v", got, c.want)
				}
			}
		})
	}
}
