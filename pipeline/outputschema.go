package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/jsontext"
)

// The schemas of outputs are those of their inputs, with fields or properties for our columns. Other parts keep their text.

// avroWith is the schema of a record with our fields at its end.
func avroWith(text string, ours []arrow.Field, passthrough bool) (string, error) {
	var record map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &record); err != nil || record["fields"] == nil {
		return "", errors.New("it is no single record, to which fields could be added")
	}
	var fields []json.RawMessage
	if err := json.Unmarshal(record["fields"], &fields); err != nil {
		return "", fmt.Errorf("its fields: %w", err)
	}
	if !passthrough {
		fields = nil
	}
	for _, f := range ours {
		name, typ := jsonName(f.Name), `"float"`
		switch f.Type.ID() {
		case arrow.FIXED_SIZE_LIST:
			typ = `{"type":"array","items":"float"}`
		case arrow.LIST:
			typ = `{"type":"array","items":{"type":"record","name":` + jsonName(f.Name+"_entry") + `,"fields":[{"name":"feature","type":"string"},{"name":"nats","type":"float"}]}}`
		case arrow.INT16:
			typ = `"int"`
		}
		fields = append(fields, json.RawMessage(`{"name":`+name+`,"type":["null",`+typ+`],"default":null}`))
	}
	return withJSON(record, "fields", fields)
}

// jsonSchemaWith is the schema of an object, or of an array of objects, with our properties.
func jsonSchemaWith(text string, ours []arrow.Field, passthrough bool) (string, error) {
	var schema map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		return "", errors.New("it is no object, to which properties could be added")
	}
	if string(schema["type"]) == `"array"` && schema["items"] != nil {
		items, err := jsonSchemaWith(string(schema["items"]), ours, passthrough)
		if err != nil {
			return "", err
		}
		return withJSON(schema, "items", json.RawMessage(items))
	}
	properties := map[string]json.RawMessage{}
	if schema["properties"] != nil && passthrough {
		if err := json.Unmarshal(schema["properties"], &properties); err != nil {
			return "", fmt.Errorf("its properties: %w", err)
		}
	}
	if !passthrough {
		delete(schema, "required")
	}
	for _, f := range ours {
		typ := `{"type":["number","null"]}`
		switch f.Type.ID() {
		case arrow.FIXED_SIZE_LIST:
			typ = `{"type":["array","null"],"items":{"type":"number"}}`
		case arrow.LIST:
			typ = `{"type":["array","null"],"items":{"type":"object","properties":{"feature":{"type":"string"},"nats":{"type":"number"}}}}`
		case arrow.INT16:
			typ = `{"type":["integer","null"]}`
		}
		properties[f.Name] = json.RawMessage(typ)
	}
	return withJSON(schema, "properties", properties)
}

// withJSON is the text of an object in which one value is another.
func withJSON(object map[string]json.RawMessage, key string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	object[key] = text
	all, err := json.Marshal(object)
	return string(all), err
}

func jsonName(s string) string { return string(jsontext.AppendString(nil, s)) }
