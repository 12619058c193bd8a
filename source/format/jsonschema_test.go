package format

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const jsonSchemaText = `{"type":"object","properties":{
  "price":{"type":"string","format":"decimal"}, "site":{"type":"string"},
  "cost":{"oneOf":[{"type":"null"},{"type":"string","title":"org.apache.kafka.connect.data.Decimal"}]},
  "after":{"type":"object","properties":{"price":{"type":["string","null"],"format":"decimal"}}}, "any":true}}`

// Text is a number where the schema says that it is a decimal, and nowhere else.
func TestDecodeJSONSchema(t *testing.T) {
	schemas := protoRegistry{1: {ID: 1, Type: SchemaJSON, Text: jsonSchemaText}, 2: {ID: 2, Type: SchemaJSON, Text: "true"}, 3: {ID: 3, Type: SchemaJSON, Text: "[]"}}
	const prefix = "\x00\x00\x00\x00\x01"
	for _, c := range []struct {
		name, in string
		config   Config
		want     []string
	}{
		{"a row", prefix + `{"price":"1.50","site":"1.50","cost":null}`, Config{}, []string{"price float64 " + f(1.5), "site utf8 " + x("1.50"), "cost float64 null"}},
		{"as a number too", prefix + `[{"price":"1.50"},{"price":2},{"price":null}]`, Config{}, []string{"price float64 " + f(1.5) + " " + f(2) + " null"}},
		{"by a path", prefix + `{"after":{"price":"12345678901234567890.5"},"cost":"-1e3"}`, Config{Columns: []string{"after.price", "cost"}, Only: true},
			[]string{"after.price float64 " + f(12345678901234567890.5), "cost float64 " + f(-1000)}},
		{"a schema that says nothing", "\x00\x00\x00\x00\x02" + `{"price":"1.50"}`, Config{Format: JSONSchema}, []string{"price utf8 " + x("1.50")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Registry = schemas
			rec, err := newDecoder(t, c.config).Decode(t.Context(), []byte(c.in), "")
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(rec); !cmp.Equal(got, c.want) {
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
	for _, c := range []struct{ name, in, code, says string }{
		{"no number", prefix + `{"price":"1,50"}`, CodeJSONType, "the text is no number"},
		{"cut", prefix + `{"price":"1`, CodeJSONInvalid, "unexpected end"},
		{"nothing", prefix, CodeEmpty, "nothing but space"},
		{"no schema", "\x00\x00\x00\x00\x03{}", CodeSchemaInvalid, "no JSON Schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newDecoder(t, Config{Registry: schemas}).Decode(t.Context(), []byte(c.in), "")
			checkRefusal(t, err, c.code, c.says)
		})
	}
	_, err := newDecoder(t, Config{Format: JSONSchema}).Decode(t.Context(), []byte(prefix+"{}"), "")
	checkRefusal(t, err, CodeJSONInvalid, "source.registry.url")
}
