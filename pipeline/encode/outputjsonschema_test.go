package encode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/source/format"
)

// Readers check outputs against their schema: whatever part of it says that a row has no other properties has ours, and still refuses
// others.
func TestOutputsAreValidByTheirSchema(t *testing.T) {
	const closed = `"type":"object","properties":{"a":{"type":"number"}},"required":["a"],"additionalProperties":false`
	const other = `"type":"object","properties":{"z":{"type":"number"}},"required":["z"],"additionalProperties":false`
	const defs = `"definitions":{"A":{` + closed + `},"B":{` + other + `},"<C>":{"$ref":"#/definitions/A"},"D":{"$id":"#d",` + closed + `},` +
		`"E":{"type":"array","items":{"$ref":"#/definitions/A"}},"open":{"type":"object","properties":{"a":{"type":"number"}}}}`
	const newer = `"$schema":"https://json-schema.org/draft/2020-12/schema",`
	row, rows := `{"a":1.5}`, `[{"a":1.5},{"a":2}]`
	ours := (&OutputConfig{Score: true, P: true, Why: 2, Imputed: true, Models: true, Column: "lca"}).fields(2)
	const values = `{"lca":[1.5,2],"lca_score":2.5,"lca_p":null,"lca_why":[{"feature":"a","nats":1}],"lca_imputed":0,"lca_model":"m/0/x","lca_version":7}`
	type check struct {
		Before     json.RawMessage            `json:"before"`
		After      json.RawMessage            `json:"after"`
		Row        json.RawMessage            `json:"row"`
		Ours       json.RawMessage            `json:"ours"`
		References map[string]json.RawMessage `json:"references"`
	}
	var checks []check
	for _, c := range []struct{ schema, row string }{
		{`{` + closed + `}`, row},
		{`{"properties":{"a":{"type":"number"}}}`, row},
		{`{` + newer + `"type":"object","properties":{"a":{"type":"number"}},"unevaluatedProperties":false}`, row},
		{`{"oneOf":[{` + closed + `},{` + other + `}]}`, row},
		{`{"type":"object","anyOf":[{` + closed + `},{` + other + `}]}`, row},
		{`{"oneOf":[{"$ref":"#/definitions/A"},{"$ref":"#/definitions/B"}],` + defs + `}`, row},
		{`{"allOf":[{"$ref":"#/definitions/%3CC%3E"}],` + defs + `}`, row},
		{`{"allOf":[{"allOf":[{` + closed + `}]}]}`, row},
		{`{"$ref":"#d",` + defs + `}`, row},
		{`{` + newer + `"$ref":"#d","$defs":{"D":{"$anchor":"d",` + closed + `}}}`, row},
		{`{` + newer + `"$ref":"#/$defs/D","properties":{"b":{"type":"number"}},"unevaluatedProperties":false,"$defs":{"D":{"properties":{"a":{"type":"number"}}}}}`, row},
		{`{"if":{"properties":{"a":{"const":1.5}},"additionalProperties":false},"then":{` + closed + `},"else":{` + other + `}}`, row},
		{`{"not":{` + other + `},"dependencies":{"a":{` + closed + `},"z":["a"]}}`, row},
		{`{` + newer + `"dependentSchemas":{"a":{` + closed + `}}}`, row},
		{`{"type":"object","propertyNames":{"pattern":"^.$"},"maxProperties":1}`, row},
		{`{"type":"object","patternProperties":{"^a":{"type":"number"}},"additionalProperties":{"type":"boolean"}}`, row},
		{`{"type":["object","null"],"properties":{"a":{"type":"number"},"kid":{"$ref":"#"}},"additionalProperties":false}`, `{"a":1,"kid":{"a":2}}`},
		{`{"$id":"http://shop/row.json","$ref":"#/definitions/A",` + defs + `}`, row},
		{`{"$ref":"open.json"}`, row},
		{`{"allOf":[{"$ref":"open.json#/definitions/open"}],"properties":{"a":{"minimum":0}}}`, row},
		{`{"type":"array","items":{"$ref":"#/definitions/A"},` + defs + `}`, rows},
		{`{"type":["array"],"items":{` + closed + `}}`, rows},
		{`{"type":"array","items":[{` + closed + `},{"$ref":"#/definitions/A"}],` + defs + `}`, rows},
		{`{` + newer + `"type":"array","prefixItems":[{` + closed + `}],"items":{` + closed + `}}`, rows},
		{`{"oneOf":[{` + closed + `},{"$ref":"#/definitions/E"}],` + defs + `}`, rows},
		{`{"oneOf":[{` + closed + `},{"$ref":"#/definitions/E"}],` + defs + `}`, row},
		{`{"$ref":"#/definitions/V","definitions":{"V":{"anyOf":[{"type":"number"},{"type":"array","items":{"$ref":"#/definitions/V"}},{"type":"object","additionalProperties":{"$ref":"#/definitions/V"}}]}}}`, row},
	} {
		open := `{` + defs + `,"properties":{"a":{"type":"number"}}}`
		s := &format.Schema{Text: c.schema, References: []format.SchemaReference{{Name: "open.json", Text: open}}}
		after, err := jsonSchemaWith(s, ours, true)
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		checks = append(checks, check{json.RawMessage(c.schema), json.RawMessage(after), json.RawMessage(c.row), json.RawMessage(values), map[string]json.RawMessage{"open.json": json.RawMessage(open)}})
		if after, err = jsonSchemaWith(s, ours, false); err != nil || strings.Contains(after, `"required"`) {
			t.Errorf("%s: without its properties %s %v", c.schema, after, err)
		}
	}
	text, err := json.Marshal(checks)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "schemas.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := testtools.RunPython(t, "testdata/check_schemas.py", path); strings.TrimSpace(got) != fmt.Sprint(len(checks)) {
		t.Errorf("%q of %d", got, len(checks))
	}
}

// Where our properties have no place, that is said; and few bytes do not become many.
func TestSchemasWithoutPlaceForOurs(t *testing.T) {
	ours := (&OutputConfig{Score: true, Column: "lca"}).fields(2)
	wide := `{"oneOf":[` + strings.Repeat(`{"$ref":"#/definitions/A"},`, 9999) + `{}],"definitions":{"A":{"additionalProperties":false,"title":"` + strings.Repeat("x", 1<<14) + `"}}}`
	double := `{"$ref":"#/definitions/D0","definitions":{`
	for i := range 40 {
		double += fmt.Sprintf(`"D%d":{"allOf":[{"$ref":"#/definitions/D%d"},{"$ref":"#/definitions/D%d"}]},`, i, i+1, i+1)
	}
	double += `"D40":{"additionalProperties":false}}}`
	for text, says := range map[string]string{
		`{"patternProperties":{"^l":{"type":"string"}}}`: `"^l"`,
		`{"$ref":"row.json"}`:                            `"row.json", to which it refers`,
		`{"allOf":[{"$ref":"row.json#/definitions/R"}]}`: `"row.json", to which it refers`,
		`{"allOf":[{"$ref":"#/definitions/R"}],"definitions":{"R":{"$id":"http://shop/r.json","additionalProperties":false}}}`: `"http://shop/r.json", to which it refers`,
		`true`: "no object", `[]`: "no object", wide: "more than", double: "more than",
	} {
		s := &format.Schema{Text: text, References: []format.SchemaReference{{Name: "row.json", Text: `{"additionalProperties":false,"definitions":{"R":{"unevaluatedProperties":false}}}`}}}
		if got, err := jsonSchemaWith(s, ours, true); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.100s: %.100s %v, want %q", text, got, err, says)
		}
	}
}
