package format

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/twmb/avro"
)

// parseAvro parses a schema with all that it refers to.
func parseAvro(s *Schema) (*avro.Schema, error) {
	var known avro.SchemaCache
	anyName := avro.WithLaxNames(nil) // Java takes letters of all languages, and does not check the names of old schemas
	for _, r := range s.References {
		if _, err := known.Parse(avroLayout(r.Text), anyName); err != nil {
			return nil, fmt.Errorf("%q, version %d of %s, to which it refers: %w", clip(r.Name), r.Version, clip(r.Subject), err)
		}
	}
	return known.Parse(avroLayout(s.Text), anyName)
}

// mostLayout bounds the schemas that avroLayout looks into, in bytes: as a tree they take many times as much.
const mostLayout = 1 << 20

// avroLayout is a schema without what does not say how its values lie in bytes, so that a fault there refuses none of
// them: registries hold schemas with defaults of other types, and decimals without a precision. Logical types that are not
// valid are left out, as the specification has it, and so is what none but others know. Text that is no JSON stays as it is.
func avroLayout(text string) string {
	if len(text) > mostLayout {
		return text
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var schema any
	if d.Decode(&schema) != nil || d.More() {
		return text
	}
	layout, err := json.Marshal(layoutOf(schema))
	if err != nil {
		return text
	}
	return string(layout)
}

// layoutKeys are the keys of a type that say how its values lie in bytes. Those of any other type, a primitive one or a
// name, are none but the type.
var layoutKeys = map[any][]string{
	"record": {"type", "name", "namespace", "fields"},
	"error":  {"type", "name", "namespace", "fields"},
	"enum":   {"type", "name", "namespace", "symbols"},
	"fixed":  {"type", "name", "namespace", "size"},
	"array":  {"type", "items"},
	"map":    {"type", "values"},
}

// layoutOf is avroLayout for a type: a name, a union or an object.
func layoutOf(node any) any {
	switch n := node.(type) {
	case []any:
		for i := range n {
			n[i] = layoutOf(n[i])
		}
	case map[string]any:
		return layoutOfObject(n)
	}
	return node
}

func layoutOfObject(n map[string]any) map[string]any {
	kind, ok := n["type"].(string)
	if !ok { // a type in a type
		n["type"] = layoutOf(n["type"])
		return n
	}
	kept := map[string]any{"type": kind}
	for _, key := range layoutKeys[kind] {
		switch value := n[key]; key {
		case "items", "values":
			kept[key] = layoutOf(value)
		case "fields":
			kept[key] = layoutOfFields(value)
		default:
			if value != nil {
				kept[key] = value
			}
		}
	}
	switch logical, _ := n["logicalType"].(string); logical {
	case "":
	case "decimal":
		precision, scale, ok := decimalOf(n)
		if ok {
			kept["logicalType"], kept["precision"], kept["scale"] = logical, precision, scale
		}
	default:
		kept["logicalType"] = logical
	}
	return kept
}

func layoutOfFields(fields any) any {
	all, ok := fields.([]any)
	if !ok {
		return fields
	}
	for i, one := range all {
		if f, ok := one.(map[string]any); ok {
			all[i] = map[string]any{"name": f["name"], "type": layoutOf(f["type"])}
		}
	}
	return all
}

// decimalOf returns the precision and the scale of a decimal; ok is false if it is not one by the specification, or one that
// Arrow has no type for.
func decimalOf(n map[string]any) (precision, scale int, ok bool) {
	precision, ok = wholeOf(n["precision"])
	if n["scale"] != nil && ok {
		scale, ok = wholeOf(n["scale"])
	}
	if !ok || precision < 1 || precision > mostDigitsOfDecimal || scale < 0 || scale > precision {
		return 0, 0, false
	}
	if n["type"] == "fixed" {
		size, isSize := wholeOf(n["size"])
		most := math.Floor(math.Log10(2) * float64(8*size-1)) // digits that integers of this size have whatever they are
		ok = isSize && float64(precision) <= most
	}
	return precision, scale, ok
}

// mostDigitsOfDecimal is the largest precision of decimals in Arrow.
const mostDigitsOfDecimal = 76

func wholeOf(value any) (int, bool) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	whole, err := strconv.Atoi(number.String())
	return whole, err == nil
}
