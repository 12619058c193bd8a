package format

import (
	"math/big"
	"slices"
	"testing"
	"time"
)

// hostileSchemas are schemas with all that there is, and a value of each.
func hostileSchemas() (schemas []string, values []map[string]any) {
	inner := `{"type":"record","name":"In","fields":[` + field("x", `"double"`) + `,` + field("s", `["null","string"]`) + `,` + field("again", `["null","In"]`) + `,` + field("l", `{"type":"array","items":["null","long"]}`) + `]}`
	in := map[string]any{"x": 1.5, "s": "text", "again": nil, "l": []any{int64(1), nil}}
	schemas = []string{
		record(field("a", `"double"`), field("b", `"int"`), field("c", `["null","float"]`), field("d", `"long"`), field("v", `{"type":"array","items":"float"}`)),
		record(field("a", inner), field("b", `{"type":"map","values":"In"}`), field("c", `{"type":"array","items":"In"}`), field("u", `["null","In","string",{"type":"array","items":"int"}]`)),
		record(field("d", `{"type":"bytes","logicalType":"decimal","precision":30,"scale":2}`), field("f", `{"type":"fixed","name":"F","size":3}`), field("e", `{"type":"enum","name":"E","symbols":["A","B","C"]}`),
			field("t", `{"type":"long","logicalType":"timestamp-micros"}`), field("b", `"boolean"`), field("n", `{"type":"array","items":"null"}`), field("m", `{"type":"map","values":["null","bytes"]}`), field("w", `["null","int","double"]`)),
		`[{"type":"record","name":"A","fields":[` + field("x", `"double"`) + `]},{"type":"record","name":"B","fields":[` + field("y", `{"type":"array","items":{"type":"array","items":"boolean"}}`) + `]}]`,
	}
	values = []map[string]any{
		{"a": 1.5, "b": int32(7), "c": float32(2), "d": int64(1) << 40, "v": []float32{1, 2, 3}},
		{"a": in, "b": map[string]any{"k": in}, "c": []any{in, in}, "u": "choice"},
		{"d": big.NewRat(-12345, 100), "f": [3]byte{1, 2, 3}, "e": "B", "t": time.Unix(1, 0), "b": true, "n": []any{nil, nil}, "m": map[string]any{"k": []byte{1}}, "w": 1.5},
		{"y": []any{[]any{true, false}}},
	}
	return schemas, values
}

// hostileAvro is a decoder of those schemas, all columns or some, and values that they have.
func hostileAvro(t testing.TB) (decoders []*Decoder, seeds [][]byte) {
	schemas, values := hostileSchemas()
	for i, s := range schemas {
		seeds = append(seeds, written(t, byte(7+i), s, values[i]))
	}
	for _, only := range [][]string{nil, {"b"}, {"a.x", "a.l"}, {"y"}} {
		decoders = append(decoders, avroOf(t, Config{Columns: only, Only: only != nil}, schemas...))
	}
	return decoders, seeds
}

func FuzzAvro(f *testing.F) {
	decoders, seeds := hostileAvro(f)
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < prefixBytes {
			return
		}
		in = slices.Clone(in) // the fuzzer keeps its own
		in[0], in[1], in[2], in[3], in[4] = 0, 0, 0, 0, 7+in[4]%byte(len(seeds))
		first := decodeHostile(t, decoders[0], in)
		for _, d := range decoders[1:] {
			if err := decodeHostile(t, d, in); first == nil && err != nil {
				t.Errorf("%v, though the whole record is sound", err)
			}
		}
	})
}
