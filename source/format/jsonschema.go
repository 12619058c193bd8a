package format

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
)

// JSON with a schema is JSON behind the prefix that names its schema. The schema is not enforced, because the serializer
// did so; but only it can say that a text is a number: where a property is a string of format decimal, or a decimal of
// Kafka Connect. Definitions elsewhere ($ref) are not followed.

// jsonSchemaFormat is JSON behind a registry's prefix.
var jsonSchemaFormat = spec{
	name:        JSONSchema,
	title:       "JSON with a schema",
	contentType: "schema+json",
	decoder:     func(Config) valueDecoder { return jsonWithoutSchema{} },
	invalid:     CodeJSONInvalid,
	tooLarge:    CodeJSONTooLarge,
	compile:     compileJSONSchema,
	schemaType:  SchemaJSON,
}

// jsonWithoutSchema refuses values that name no schema, or one in a registry that is not configured.
type jsonWithoutSchema struct{}

func (jsonWithoutSchema) decode(_ context.Context, value []byte, _ *Arena) (arrow.Record, error) {
	if _, _, ok := SchemaID(value); ok {
		return nil, errorf(CodeJSONInvalid, "the value names a schema in a registry: set source.registry.url")
	}
	return nil, errorf(CodeJSONInvalid, "the value names no schema; set source.format to auto or json to read JSON without one")
}

// jsonProperty is what is read of a schema.
type jsonProperty struct {
	Type       any // a text, or several
	Format     string
	Title      string
	Properties map[string]json.RawMessage
	OneOf      []json.RawMessage
	AnyOf      []json.RawMessage
}

func compileJSONSchema(c Config, s *Schema) (valueDecoder, error) {
	decimals := map[string]bool{}
	if err := findDecimals(decimals, "", []byte(s.Text), 0); err != nil {
		return nil, fmt.Errorf("it is no JSON Schema: %w", err)
	}
	d := newJSONDecoder(c)
	d.decimals = decimals
	if d.whole != nil {
		d.whole.decimals = decimals
	}
	return d, nil
}

// findDecimals notes the paths of the numbers that are written as text.
func findDecimals(found map[string]bool, path string, text []byte, depth int) error {
	if string(text) == "true" || string(text) == "false" || depth > jsonDepth {
		return nil
	}
	var p jsonProperty
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	if p.Format == "decimal" || p.Title == "org.apache.kafka.connect.data.Decimal" {
		found[path] = true
	}
	for name, property := range p.Properties {
		inner := name
		if path != "" {
			inner = path + "." + name
		}
		if err := findDecimals(found, inner, property, depth+1); err != nil {
			return err
		}
	}
	for _, branches := range [][]json.RawMessage{p.OneOf, p.AnyOf} {
		for _, branch := range branches {
			if err := findDecimals(found, path, branch, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
