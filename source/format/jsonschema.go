package format

import (
	"context"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
)

// JSON with a schema is JSON behind the prefix that names its schema. The schema is not enforced, because the serializer
// did so; but only it can say that a text is a number: where a property is a string of format decimal, or a decimal of
// Kafka Connect.

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

func compileJSONSchema(c Config, s *Schema) (valueDecoder, error) {
	decimals, err := findDecimals(s)
	if err != nil {
		return nil, fmt.Errorf("it is no JSON Schema: %w", err)
	}
	d := newJSONDecoder(c)
	d.decimals = decimals
	if d.whole != nil {
		d.whole.decimals = decimals
	}
	return d, nil
}
