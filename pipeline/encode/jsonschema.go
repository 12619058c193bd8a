package encode

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format"
)

// A JSON Schema may say in many places that a row has no other properties: in what a $ref refers to, in each branch of a oneOf,
// in an allOf next to others. Our properties are put into each of them, because readers check a row against all.

// jsonSchemaWith is the schema of an object, or of an array of objects, with our properties.
func jsonSchemaWith(s *format.Schema, ours []arrow.Field, passthrough bool) (string, error) {
	o := &jsonOpener{whole: json.RawMessage(s.Text), references: s.References, ours: map[string]json.RawMessage{}, parts: mostParts, room: mostPartBytes}
	for _, f := range ours {
		o.ours[f.Name] = json.RawMessage(columnTypes[f.Type.ID()].json)
	}
	if !passthrough {
		return o.alone()
	}
	opened, _, err := o.open(o.whole, true, true)
	return string(opened), err
}

// jsonOpener puts our properties into the parts of a schema.
type jsonOpener struct {
	whole      json.RawMessage
	references []format.SchemaReference
	ours       map[string]json.RawMessage // by name
	parts      int                        // that may still be looked at
	room       int                        // bytes that may still be put into the place of a $ref
}

// Bounds of the work: few bytes of references stand for any number of parts.
const (
	mostParts     = 10_000
	mostPartBytes = 16 << 20
)

// jsonPart is a schema, or a part of one.
type jsonPart map[string]json.RawMessage

// alone is the schema of rows that have no properties but ours.
func (o *jsonOpener) alone() (string, error) {
	var schema jsonPart
	if json.Unmarshal(o.whole, &schema) != nil || schema == nil {
		return "", errNoJSONObject
	}
	if err := o.inline(schema); err != nil {
		return "", err
	}
	_, lists := schema.types()
	maps.DeleteFunc(schema, func(key string, _ json.RawMessage) bool {
		return !slices.Contains([]string{"$schema", "$id", "title", "description", "type"}, key)
	})
	if !lists {
		return withJSON(schema, "properties", o.ours)
	}
	return withJSON(schema, "items", map[string]any{"type": "object", "properties": o.ours})
}

var errNoJSONObject = errors.New("it is no object, to which properties could be added")

// open is a schema of rows, with our properties wherever it allows no others; must: and at the top; arrays: it may be of arrays of rows.
func (o *jsonOpener) open(text json.RawMessage, must, arrays bool) (opened json.RawMessage, changed bool, err error) {
	if o.parts--; o.parts < 0 {
		return nil, false, fmt.Errorf("it leads to more than %d parts", mostParts)
	}
	var schema jsonPart
	if json.Unmarshal(text, &schema) != nil || schema == nil {
		if must {
			return nil, false, errNoJSONObject
		}
		return text, false, nil // true or false, say
	}
	if err := o.inline(schema); err != nil {
		return nil, false, err
	}
	objects, lists := schema.types()
	if lists && arrays {
		if changed, err = o.each(schema, elements, must && !objects, false); err != nil {
			return nil, false, err
		}
	}
	some, err := o.each(schema, inPlace, false, arrays)
	if err != nil {
		return nil, false, err
	}
	changed = changed || some
	if objects && (must || o.closed(schema)) {
		if err := o.add(schema); err != nil {
			return nil, false, err
		}
		changed = true
	}
	if !changed {
		return text, false, nil
	}
	opened, err = json.Marshal(schema)
	return opened, true, err
}

// types reports whether a schema allows for objects, and for arrays. One of an array alone is for nothing else.
func (p jsonPart) types() (objects, lists bool) {
	var one string
	var several []string
	switch {
	case json.Unmarshal(p["type"], &one) == nil:
		several = []string{one}
	case json.Unmarshal(p["type"], &several) != nil:
		return true, p["items"] != nil || p["prefixItems"] != nil
	}
	lists = slices.Contains(several, "array")
	return !lists || slices.Contains(several, "object"), lists
}

var ( // keys of what the elements of an array are checked by, and a value in addition to the rest of its schema
	elements = []string{"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"}
	inPlace  = []string{"allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas", "dependencies"}
)

// each opens what stands under some keys: a schema, a list of them, or some by names.
func (o *jsonOpener) each(schema jsonPart, keys []string, must, arrays bool) (changed bool, err error) {
	for _, key := range keys {
		if schema[key] == nil {
			continue
		}
		var opened any
		var some bool
		var list []json.RawMessage
		named := jsonPart{}
		switch {
		case json.Unmarshal(schema[key], &list) == nil:
			opened, some, err = o.all(list, must, arrays)
		case strings.HasPrefix(key, "depend") && json.Unmarshal(schema[key], &named) == nil:
			opened, some, err = o.named(named, arrays)
		default:
			opened, some, err = o.open(schema[key], must, arrays)
		}
		if err == nil && some {
			changed, err = true, schema.set(key, opened)
		}
		if err != nil {
			return false, err
		}
	}
	return changed, nil
}

func (o *jsonOpener) all(list []json.RawMessage, must, arrays bool) (opened []json.RawMessage, changed bool, err error) {
	for _, one := range list {
		one, some, err := o.open(one, must, arrays)
		if err != nil {
			return nil, false, err
		}
		opened, changed = append(opened, one), changed || some
	}
	return opened, changed, nil
}

func (o *jsonOpener) named(parts jsonPart, arrays bool) (opened jsonPart, changed bool, err error) {
	for name, one := range parts {
		one, some, err := o.open(one, false, arrays)
		if err != nil {
			return nil, false, err
		}
		parts[name], changed = one, changed || some
	}
	return parts, changed, nil
}

// closed reports whether a schema does not allow our properties.
func (o *jsonOpener) closed(schema jsonPart) bool {
	for _, key := range [...]string{"additionalProperties", "unevaluatedProperties"} {
		if schema[key] != nil && string(schema[key]) != "true" {
			return true
		}
	}
	return schema["maxProperties"] != nil || schema["propertyNames"] != nil || o.patternOf(schema) != ""
}

// patternOf is a pattern of properties that one of ours has.
func (o *jsonOpener) patternOf(schema jsonPart) string {
	var patterns jsonPart
	if json.Unmarshal(schema["patternProperties"], &patterns) != nil {
		return ""
	}
	for pattern := range patterns {
		if re, err := regexp.Compile(pattern); err == nil {
			for name := range o.ours {
				if re.MatchString(name) {
					return pattern
				}
			}
		}
	}
	return ""
}

// add adds our properties to a schema of objects.
func (o *jsonOpener) add(schema jsonPart) error {
	if pattern := o.patternOf(schema); pattern != "" {
		return fmt.Errorf("its patternProperties say with %q what ours are", pattern)
	}
	properties := jsonPart{}
	if schema["properties"] != nil {
		if err := json.Unmarshal(schema["properties"], &properties); err != nil || properties == nil {
			return fmt.Errorf("its properties are no object: %w", err)
		}
	}
	maps.Copy(properties, o.ours)
	var most float64
	if json.Unmarshal(schema["maxProperties"], &most) == nil {
		if err := schema.set("maxProperties", most+float64(len(o.ours))); err != nil {
			return err
		}
	}
	if names := schema["propertyNames"]; names != nil {
		if err := schema.set("propertyNames", map[string]any{"anyOf": []any{names, map[string]any{"enum": slices.Sorted(maps.Keys(o.ours))}}}); err != nil {
			return err
		}
	}
	return schema.set("properties", properties)
}

func (p jsonPart) set(key string, value any) error {
	text, err := json.Marshal(value)
	p[key] = text
	return err
}

// inline puts what the $ref of a schema refers to within the whole into its place: our properties would be next to it, where they mean
// nothing, and what it refers to may allow no others. What it refers to elsewhere has to allow them as it is.
func (o *jsonOpener) inline(schema jsonPart) error {
	const most = 16 // a $ref to a $ref, and so on
	for range most {
		var ref string
		if json.Unmarshal(schema["$ref"], &ref) != nil {
			return nil
		}
		document, target, at := o.target(ref)
		if target == nil {
			return nil
		}
		if o.room -= len(target); o.room < 0 {
			return fmt.Errorf("it refers to more than %d bytes", mostPartBytes)
		}
		if at != "" {
			return o.elsewhere(document, target, at)
		}
		delete(schema, "$ref")
		if err := schema.take(target); err != nil {
			return err
		}
	}
	return fmt.Errorf("its $ref leads to more than %d others", most)
}

// elsewhere checks that a schema that stands in another document allows our properties.
func (o *jsonOpener) elsewhere(document, target json.RawMessage, name string) error {
	there := *o
	there.whole = document
	_, closed, err := there.open(target, false, true)
	o.parts, o.room = there.parts, there.room
	if err == nil && closed {
		err = fmt.Errorf("%q, to which it refers, allows no other properties", name)
	}
	return err
}

// take adds what a schema refers to. Where both say something, it becomes one of those that all have to hold.
func (p jsonPart) take(target json.RawMessage) error {
	var part jsonPart
	if err := json.Unmarshal(target, &part); err != nil {
		return err
	}
	for _, key := range [...]string{"$id", "id", "$anchor", "$schema", "$dynamicAnchor"} { // names of the part where it stands
		delete(part, key)
	}
	for key := range part {
		if p[key] != nil && !slices.Contains([]string{"title", "description", "$comment", "examples", "default"}, key) {
			text, err := json.Marshal(part)
			if err != nil {
				return err
			}
			var all []json.RawMessage
			if p["allOf"] != nil && json.Unmarshal(p["allOf"], &all) != nil {
				return errors.New("its allOf is no list")
			}
			return p.set("allOf", append(all, text))
		}
	}
	maps.Copy(p, part)
	return nil
}

// target is what a $ref refers to, nil if that is not to be had, and the document in which it stands. at is its name if it cannot be taken from
// there, because what it refers to itself would then be another.
func (o *jsonOpener) target(ref string) (document, target json.RawMessage, at string) {
	name, place, _ := strings.Cut(ref, "#")
	document = o.whole
	if name != "" {
		var base string
		var whole jsonPart
		if json.Unmarshal(o.whole, &whole) == nil {
			_ = json.Unmarshal(whole["$id"], &base)
		}
		i := slices.IndexFunc(o.references, func(r format.SchemaReference) bool {
			return r.Name == name || base != "" && r.Name == base[:strings.LastIndexByte(base, '/')+1]+name
		})
		if i < 0 {
			return nil, nil, ""
		}
		document, at = json.RawMessage(o.references[i].Text), name
	}
	if target = partOf(document, place); target == nil || place == "" && at == "" { // a schema that is itself
		return nil, nil, ""
	}
	var id struct {
		ID string `json:"$id"`
	}
	if at == "" && json.Unmarshal(target, &id) == nil && id.ID != "" && id.ID[0] != '#' {
		return target, target, id.ID
	}
	return document, target, at
}

// partOf is the schema at a JSON pointer, or with an anchor; nil if there is none.
func partOf(document json.RawMessage, place string) json.RawMessage {
	if decoded, err := url.PathUnescape(place); err == nil {
		place = decoded
	}
	if place != "" && place[0] != '/' {
		return anchored(document, place)
	}
	part := document
	for place != "" {
		var key string
		key, place, _ = strings.Cut(place[1:], "/")
		if place != "" {
			place = "/" + place
		}
		var within jsonPart
		if json.Unmarshal(part, &within) != nil {
			return nil
		}
		part = within[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
	}
	var schema jsonPart
	if json.Unmarshal(part, &schema) != nil || schema == nil {
		return nil
	}
	return part
}

// anchored is the definition that has an anchor.
func anchored(document json.RawMessage, name string) json.RawMessage {
	var whole jsonPart
	if json.Unmarshal(document, &whole) != nil {
		return nil
	}
	for _, key := range [...]string{"$defs", "definitions"} {
		var definitions jsonPart
		_ = json.Unmarshal(whole[key], &definitions)
		for _, one := range definitions {
			var has struct {
				Anchor string `json:"$anchor"`
				ID     string `json:"$id"`
			}
			if json.Unmarshal(one, &has) == nil && (has.Anchor == name || has.ID == "#"+name) {
				return one
			}
		}
	}
	return nil
}
