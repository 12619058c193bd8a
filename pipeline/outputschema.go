package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	} else if containsItself(text) {
		return "", errors.New("its record contains itself, and fields at the end of the row would be fields of the records within it as well")
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
		case arrow.INT64:
			typ = `"long"`
		case arrow.STRING:
			typ = `"string"`
		}
		fields = append(fields, json.RawMessage(`{"name":`+name+`,"type":["null",`+typ+`],"default":null}`))
	}
	return withJSON(record, "fields", fields)
}

// containsItself reports whether the record at the top of an Avro schema is named within it.
func containsItself(text string) bool {
	var top map[string]any
	if json.Unmarshal([]byte(text), &top) != nil {
		return false
	}
	name, space := avroName(top, "")
	return namesWithin(top["fields"], name, space)
}

// avroName is the full name of a type that is defined in a namespace, and the namespace of what is within it.
func avroName(defined map[string]any, space string) (name, within string) {
	name, _ = defined["name"].(string)
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		return name, name[:at]
	}
	if own, ok := defined["namespace"].(string); ok {
		space = own
	}
	return inSpace(name, space), space
}

func inSpace(name, space string) string {
	if space == "" || strings.Contains(name, ".") {
		return name
	}
	return space + "." + name
}

// namesWithin reports whether a type, or what is within it, refers to a full name. It is called with fields as well, whose names are none of types.
func namesWithin(node any, name, space string) bool {
	switch n := node.(type) {
	case string:
		return inSpace(n, space) == name
	case []any:
		return slices.ContainsFunc(n, func(one any) bool { return namesWithin(one, name, space) })
	case map[string]any:
		if n["fields"] != nil {
			_, space = avroName(n, space)
		}
		for _, key := range [...]string{"fields", "items", "values"} {
			if n[key] != nil {
				return namesWithin(n[key], name, space)
			}
		}
		return n["symbols"] == nil && n["size"] == nil && namesWithin(n["type"], name, space)
	}
	return false
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
