package encode

import (
	"encoding/json"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/source/format"
)

// A record may be named within itself in many ways, and another may have its name in another namespace.
func TestRecordsWithinThemselves(t *testing.T) {
	for text, want := range map[string]bool{
		`{"type":"record","name":"R","fields":[{"name":"R","type":"double"},{"name":"e","type":{"type":"enum","name":"E","symbols":["R"]}},{"name":"f","type":{"type":"fixed","name":"F","size":2},"doc":"R"}]}`: false,
		`{"type":"record","name":"R","fields":[{"name":"next","type":["null","R"]}]}`:                                                                                                                        true,
		`{"type":"record","name":"R","fields":[{"name":"all","type":{"type":"array","items":{"type":"R"}}}]}`:                                                                                                true,
		`{"type":"record","name":"R","fields":[{"name":"all","type":{"type":"map","values":["null",{"type":"array","items":"R"}]}}]}`:                                                                        true,
		`{"type":"record","name":"R","namespace":"a.b","fields":[{"name":"next","type":["null","a.b.R"]}]}`:                                                                                                  true,
		`{"type":"record","name":"a.b.R","fields":[{"name":"in","type":{"type":"record","name":"S","fields":[{"name":"back","type":["null","R"]}]}}]}`:                                                       true,
		`{"type":"record","name":"a.b.R","fields":[{"name":"in","type":{"type":"record","name":"S","namespace":"c","fields":[{"name":"back","type":["null","R"]}]}}]}`:                                       false,
		`{"type":"record","name":"a.b.R","fields":[{"name":"in","type":{"type":"record","name":"S","namespace":"c","fields":[{"name":"back","type":["null","a.b.R"]}]}}]}`:                                   true,
		`{"type":"record","name":"R","namespace":"a","fields":[{"name":"in","type":{"type":"record","name":"c.R","fields":[{"name":"back","type":["null","R"]}]}},{"name":"record","type":["null","c.R"]}]}`: false,
	} {
		if got := containsItself(text); got != want {
			t.Errorf("%v, want %v: %s", got, want, text)
		}
	}
}

// Generators of JSON Schema put the row behind a $ref, and say that it has no other properties: ours belong to what it refers to.
func TestPropertiesBehindReferences(t *testing.T) {
	ours := []arrow.Field{{Name: "lca_p", Type: arrow.PrimitiveTypes.Float32}}
	const row, with = `"additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/N"}`, `,"lca_p":{"type":["number","null"]}}`
	const defs = `"$defs":{"R":{` + row + `}},"N":{"type":"number"},"again":{"$ref":"#/$defs/R"},"a/b":{"$ref":"#/$defs/again"},"loop":{"$ref":"#/$defs/loop"}}`
	for text, want := range map[string]string{
		`{"$ref":"#/$defs/R",` + defs + `}`:                                `{` + row + with + `,` + defs + `}`,
		`{"title":"T","$ref":"#/$defs/a~1b",` + defs + `}`:                 `{"title":"T",` + row + with + `,` + defs + `}`,
		`{"type":"array","items":{"$ref":"#/$defs/R"},` + defs + `}`:       `{"type":"array","items":{` + row + with + `},` + defs + `}`,
		`{"$ref":"row.json"}`:                                              `{"$ref":"row.json","properties":{"lca_p":{"type":["number","null"]}}}`,
		`{"$ref":"#/$defs/none",` + defs + `}`:                             `{"$ref":"#/$defs/none","properties":{"lca_p":{"type":["number","null"]}},` + defs + `}`,
		`{"$ref":"#/$defs/loop",` + defs + `}`:                             "",
		`{"properties":{"self":{"$ref":"#"}},"additionalProperties":true}`: `{"properties":{"self":{"$ref":"#"}` + with + `,"additionalProperties":true}`,
	} {
		got, err := jsonSchemaWith(&format.Schema{Text: text}, ours, true)
		if want == "" {
			if err == nil {
				t.Errorf("%s: %s, want an error", text, got)
			}
			continue
		}
		var g, w any
		if err != nil || json.Unmarshal([]byte(got), &g) != nil || json.Unmarshal([]byte(want), &w) != nil || !cmp.Equal(g, w) {
			t.Errorf("%s: %v %s, want %s", text, err, got, want)
		}
	}
}
