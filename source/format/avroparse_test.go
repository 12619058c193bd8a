package format

import (
	"strings"
	"testing"
)

// What other readers pass over in a schema, because it does not say how values lie in bytes, refuses none of them.
// Registries hold all of these.
func TestAvroSchemasWithFaults(t *testing.T) {
	const decimal, fixed = `{"type":"bytes","logicalType":"decimal"%s}`, `{"type":"fixed","name":"F","size":2,"logicalType":"decimal"%s}`
	bytes := func(rest string) string { return strings.ReplaceAll(decimal, "%s", rest) }
	for _, c := range []struct {
		name, field string
		body        string
		types, rows string
	}{
		{"a decimal without precision", field("v", bytes("")), "\x02\x07", "v: binary", `[{"v":"Bw=="}]`},
		{"of precision 0", field("v", bytes(`,"precision":0`)), "\x02\x07", "v: binary", `[{"v":"Bw=="}]`},
		{"of a scale above the precision", field("v", bytes(`,"precision":2,"scale":5`)), "\x02\x07", "v: binary", `[{"v":"Bw=="}]`},
		{"of a negative scale", field("v", bytes(`,"precision":2,"scale":-5`)), "\x02\x07", "v: binary", `[{"v":"Bw=="}]`},
		{"of a precision in text", field("v", bytes(`,"precision":"9","scale":"2"`)), "\x02\x07", "v: binary", `[{"v":"Bw=="}]`},
		{"of more digits than Arrow has", field("v", bytes(`,"precision":100000`)), "\x02\x07", "v: binary", `[{"v":"Bw=="}]`},
		{"of a scale that is null", field("v", bytes(`,"precision":4,"scale":null`)), "\x02\x07", "v: decimal(4, 0)", `[{"v":"7"}]`},
		{"of a size for 4 digits, and of 4", field("v", strings.ReplaceAll(fixed, "%s", `,"precision":4`)), "\x00\x07", "v: decimal(4, 0)", `[{"v":"7"}]`},
		{"and of 5", field("v", strings.ReplaceAll(fixed, "%s", `,"precision":5`)), "\x00\x07", "v: fixed_size_binary[2]", `[{"v":"AAc="}]`},
		{"a logical type of another type", field("v", `{"type":"string","logicalType":"decimal","precision":"x"}`), "\x02a", "v: utf8", `[{"v":"a"}]`},
		{"a duration of 16 bytes", field("v", `{"type":"fixed","name":"F","size":2,"logicalType":"duration"}`), "\x00\x07", "v: fixed_size_binary[2]", `[{"v":"AAc="}]`},
		{"a default of another type", `{"name":"v","type":"int","default":"0"}`, "\x02", "v: int32", `[{"v":1}]`},
		{"a default null of no union", `{"name":"v","type":"int","default":null}`, "\x02", "v: int32", `[{"v":1}]`},
		{"a default that is no symbol", `{"name":"v","type":{"type":"enum","name":"E","symbols":["A"],"default":"Z"},"default":"Y"}`, "\x00", "v: utf8", `[{"v":"A"}]`},
		{"an alias that is the name", `{"name":"v","type":"int","aliases":["v","v"]}`, "\x02", "v: int32", `[{"v":1}]`},
		{"an order of no kind", `{"name":"v","type":"int","order":"none"}`, "\x02", "v: int32", `[{"v":1}]`},
		{"a name of an array", field("v", `{"type":"array","name":"vs","items":{"type":"string","name":"one"}}`), "\x02\x02a\x00", "v: list<item: utf8, nullable>", `[{"v":["a"]}]`},
		{"a name beyond ASCII", field("größe", `"int"`), "\x02", "größe: int32", `[{"größe":1}]`},
		{"a name with a dash and a dot", field("a-b.c", `{"type":"enum","name":"my-shop.E","symbols":["x-y"]}`), "\x00", "a-b.c: utf8", `[{"a-b.c":"x-y"}]`},
		{"a doc that is no text", `{"name":"v","type":"int","doc":["x"]}`, "\x02", "v: int32", `[{"v":1}]`},
		{"a time on the field, and not on its type", `{"name":"v","type":"long","logicalType":"timestamp-millis"}`, "\x02", "v: int64", `[{"v":1}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, err := avroOf(t, Config{}, record(c.field)).Decode(t.Context(), []byte("\x00\x00\x00\x00\x07"+c.body), "")
			if err != nil {
				t.Fatal(err)
			}
			defer rec.Release()
			if types, rows := shown(t, rec); types != c.types || rows != c.rows {
				t.Errorf("%s %s, want %s %s", types, rows, c.types, c.rows)
			}
		})
	}
}
