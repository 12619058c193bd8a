package format

import (
	"maps"
	"strings"
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
		{"text among numbers", prefix + `[{"price":"1.50"},{"price":"n/a"},{"price":2},{"price":""}]`, Config{}, []string{"price utf8 " + x("1.50") + " " + x(`"n/a"`) + " " + x("2") + " " + x(`""`)}},
		{"nothing but text", prefix + `{"price":"1,50"}`, Config{}, []string{"price utf8 " + x("1,50")}},
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

// A decimal is found where its definition is in another part of the schema or in another schema, at any level of one that
// contains itself, and what cannot be found changes nothing.
func TestDecimalsDefinedElsewhere(t *testing.T) {
	const decimal = `{"type":"string","format":"decimal"}`
	money := SchemaReference{Name: "https://shop.test/money.json", Text: `{"properties":{"amount":{"$ref":"#/$defs/amount"}},"$defs":{"amount":` + decimal + `}}`}
	cost := SchemaReference{Name: "cost.json", Text: `{"definitions":{"a/b":[` + decimal + `]}}`}
	for _, c := range []struct {
		name, schema, row string
		columns, want     []string
	}{
		{"definitions", `{"properties":{"p":{"$ref":"#/definitions/D"},"q":{"type":"string"}},"definitions":{"D":` + decimal + `}}`, `{"p":"1.5","q":"1.5"}`, []string{"p", "q"}, []string{f(1.5), x("1.5")}},
		{"$defs, twice", `{"properties":{"p":{"$ref":"#/$defs/D"}},"$defs":{"D":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/E"}]},"E":` + decimal + `}}`, `{"p":"1.5"}`, []string{"p"}, []string{f(1.5)}},
		{"an object", `{"$ref":"#/definitions/Row","definitions":{"Row":{"properties":{"in":{"$ref":"#/definitions/%3CIn%3E"}}},"<In>":{"properties":{"p":` + decimal + `}}}}`, `{"in":{"p":"1.5"}}`, []string{"in.p"}, []string{f(1.5)}},
		{"an array of rows", `{"type":"array","items":{"$ref":"#/$defs/Row"},"$defs":{"Row":{"allOf":[{"properties":{"p":` + decimal + `}}]}}}`, `[{"p":"1.5"}]`, []string{"p"}, []string{f(1.5)}},
		{"itself", `{"properties":{"p":` + decimal + `,"next":{"$ref":"#"}}}`, `{"p":"1.5","next":{"next":{"p":"2.5"}}}`, []string{"p", "next.next.p"}, []string{f(1.5), f(2.5)}},
		{"a circle", `{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/B"},"B":{"anyOf":[{"$ref":"#/$defs/A"},{"$ref":"#"}],"properties":{"p":` + decimal + `}}}}`, `{"p":"1.5"}`, []string{"p"}, []string{f(1.5)}},
		{"another schema", `{"$id":"https://shop.test/row.json","properties":{"m":{"$ref":"money.json"},"c":{"$ref":"cost.json#/definitions/a~1b/0"}}}`, `{"m":{"amount":"1.5"},"c":"2.5"}`, []string{"m.amount", "c"}, []string{f(1.5), f(2.5)}},
		{"not there", `{"properties":{"p":{"$ref":"https://away.test/x.json"},"q":{"$ref":"#/$defs/none/1"},"r":{"$ref":"#anchor"},"s":` + decimal + `}}`, `{"p":"1.5","q":"1","r":"1","s":"1.5"}`, []string{"p", "q", "r", "s"}, []string{x("1.5"), x("1"), x("1"), f(1.5)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := protoRegistry{1: {ID: 1, Type: SchemaJSON, Text: c.schema, References: []SchemaReference{money, cost}}}
			rec, err := newDecoder(t, Config{Registry: s, Columns: c.columns, Only: true}).Decode(t.Context(), []byte("\x00\x00\x00\x00\x01"+c.row), "")
			if err != nil {
				t.Fatal(err)
			}
			got := describe(rec)
			for i, name := range c.columns {
				if !strings.HasPrefix(got[i], name+" ") || !strings.HasSuffix(got[i], " "+c.want[i]) {
					t.Errorf("%s, want %s %s", got[i], name, c.want[i])
				}
			}
		})
	}
}

// A schema of few bytes that stands for endless properties is searched to the same bound each time.
func TestEndlessJSONSchemas(t *testing.T) {
	long := strings.Repeat("n", 500)
	text := `{"format":"decimal","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"` + long + `":{"$ref":"#"}},"anyOf":[{"$ref":"#"},{"$ref":"#` + strings.Repeat("/x", 2000) + `"}]}`
	first, err := findDecimals(&Schema{Text: text})
	if err != nil || len(first) == 0 || len(first) > mostJSONDefinitions || !first["a.b.a"] {
		t.Fatalf("%v: %d paths", err, len(first))
	}
	again, err := findDecimals(&Schema{Text: text})
	if err != nil || !maps.Equal(first, again) {
		t.Errorf("%v: other paths the second time: %d and %d", err, len(first), len(again))
	}
	chain, err := findDecimals(&Schema{Text: `{"format":"decimal","properties":{"a":{"$ref":"#"}}}`})
	if err != nil || len(chain) != jsonDepth+1 {
		t.Errorf("%v: %d paths", err, len(chain))
	}
	for path := range first {
		if len(path) > longestJSONPath+jsonDepth {
			t.Fatalf("a path of %d bytes", len(path))
		}
	}
}

// No schema ends the process, and none gives more paths than are looked at.
func FuzzJSONSchema(f *testing.F) {
	for _, text := range []string{jsonSchemaText, `{"$ref":"#"}`, `{"$ref":"other#/a~1b/0","$id":"http://h/a"}`, `{"properties":{"a":{"$ref":"#/x%2fy"}}}`, `[]`, `{"items":{"$ref":"#"}}`} {
		f.Add(text, `{"a/b":[{"format":"decimal","$ref":"#"}]}`)
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		s := &Schema{Text: text, References: []SchemaReference{{Name: "other", Text: other}}}
		found, err := findDecimals(s)
		if len(found) > mostJSONDefinitions {
			t.Fatalf("%d paths", len(found))
		}
		if again, e := findDecimals(s); (e == nil) != (err == nil) || !maps.Equal(found, again) {
			t.Fatalf("%v, then %v: other paths the second time", err, e)
		}
	})
}
