package format

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// JSON with a schema is JSON behind the prefix that names its schema. The schema is not enforced, because the serializer
// did so; but only it can say that a text is a number: where a property is a string of format decimal, or a decimal of
// Kafka Connect.

// jsonSchemaFormat is JSON behind a registry's prefix.
var jsonSchemaFormat = spec{
	name:        JSONSchema,
	title:       "JSON with a schema",
	contentType: "schema+json",
	decoder: func(Config) valueDecoder {
		return withoutSchema{CodeJSONInvalid, "; set source.format to auto or json to read JSON without one"}
	},
	invalid:    CodeJSONInvalid,
	tooLarge:   CodeJSONTooLarge,
	compile:    compileJSONSchema,
	schemaType: SchemaJSON,
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

// A property may be defined elsewhere: "$ref" names a part of the same schema, or one of the schemas that the registry
// lists as references. Definitions may contain themselves, and few bytes can stand for any number of properties. So the
// properties nearest to the top are looked at first, each definition once in each place, and the search ends after
// mostJSONDefinitions of them.

// Bounds of the search.
const (
	mostJSONDefinitions = 10_000  // definitions that are looked at
	longestJSONPath     = 1 << 10 // bytes of the path of a property, and of a "$ref"
)

// jsonDefinition is a definition and where it was found.
type jsonDefinition struct {
	path     string        // of the property, with dots
	depth    int           // number of properties in path
	value    any           // the definition: an object, or a boolean that says nothing
	document *jsonDocument // whose parts its "$ref" names
}

// jsonDocument is the text of one schema.
type jsonDocument struct {
	root any
	base string // "$id" up to its last slash; "" if it has none
}

// jsonSeen is a definition in one place.
type jsonSeen struct {
	path       string
	definition uintptr
}

// jsonDefinitions goes through the definitions of a schema.
type jsonDefinitions struct {
	references []SchemaReference
	documents  map[string]*jsonDocument // by the names of references
	queue      []jsonDefinition
	seen       map[jsonSeen]bool
}

// findDecimals returns the paths of the numbers that are written as text.
func findDecimals(s *Schema) (map[string]bool, error) {
	document, err := parseJSONSchema(s.Text)
	if err != nil {
		return nil, err
	}
	g := jsonDefinitions{references: s.References, documents: map[string]*jsonDocument{}, seen: map[jsonSeen]bool{}}
	g.add(jsonDefinition{value: document.root, document: document})
	found := map[string]bool{}
	for i := 0; i < len(g.queue); i++ {
		if err := g.look(found, g.queue[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// parseJSONSchema reads the text of a schema.
func parseJSONSchema(text string) (*jsonDocument, error) {
	d := &jsonDocument{}
	if err := json.Unmarshal([]byte(text), &d.root); err != nil {
		return nil, err
	}
	object, _ := d.root.(map[string]any)
	if id, ok := object["$id"].(string); ok {
		d.base = id[:strings.LastIndexByte(id, '/')+1]
	}
	return d, nil
}

// add queues a definition, unless it has been looked at in its place or there are too many.
func (g *jsonDefinitions) add(s jsonDefinition) {
	if len(g.queue) == mostJSONDefinitions {
		return
	}
	if object, ok := s.value.(map[string]any); ok {
		key := jsonSeen{s.path, reflect.ValueOf(object).Pointer()}
		if g.seen[key] {
			return
		}
		g.seen[key] = true
	}
	g.queue = append(g.queue, s)
}

// look notes whether s is a decimal, and queues what it is made of.
func (g *jsonDefinitions) look(found map[string]bool, s jsonDefinition) error {
	object, ok := s.value.(map[string]any)
	if _, boolean := s.value.(bool); boolean || s.value == nil {
		return nil
	}
	if !ok {
		return fmt.Errorf("the definition of %q is neither an object nor a boolean", clip(s.path))
	}
	if object["format"] == "decimal" || object["title"] == "org.apache.kafka.connect.data.Decimal" {
		found[s.path] = true
	}
	if ref, ok := object["$ref"].(string); ok {
		if err := g.follow(s, ref); err != nil {
			return err
		}
	}
	for _, of := range []string{"oneOf", "anyOf", "allOf"} {
		branches, _ := object[of].([]any)
		for _, branch := range branches {
			g.add(s.with(branch))
		}
	}
	if items, ok := object["items"].(map[string]any); ok && s.path == "" { // an array of rows
		g.add(s.with(items))
	}
	return g.properties(s, object)
}

// with is another definition in the same place.
func (s jsonDefinition) with(value any) jsonDefinition {
	s.value = value
	return s
}

// properties queues the properties of an object, in an order that does not change from one run to the next.
func (g *jsonDefinitions) properties(s jsonDefinition, object map[string]any) error {
	value, some := object["properties"]
	properties, ok := value.(map[string]any)
	if some && !ok {
		return fmt.Errorf("the properties of %q are no object", clip(s.path))
	}
	if s.depth == jsonDepth || len(g.queue) == mostJSONDefinitions {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		inner := jsonDefinition{path: name, depth: s.depth + 1, value: properties[name], document: s.document}
		if len(s.path)+len(name) > longestJSONPath {
			continue
		}
		if s.path != "" {
			inner.path = s.path + "." + name
		}
		g.add(inner)
	}
	return nil
}

// follow queues what a "$ref" in s names. What is not found is left alone: the serializer may have had it from elsewhere,
// and the values are JSON all the same.
func (g *jsonDefinitions) follow(s jsonDefinition, ref string) error {
	if len(ref) > longestJSONPath {
		return nil
	}
	name, pointer, _ := strings.Cut(ref, "#")
	if name != "" {
		var err error
		if s.document, err = g.named(s.document, name); s.document == nil {
			return err
		}
	}
	if definition, ok := s.document.part(pointer).(map[string]any); ok {
		g.add(s.with(definition))
	}
	return nil
}

// named returns the schema that is called name in another one; nil if the registry does not list it.
func (g *jsonDefinitions) named(in *jsonDocument, name string) (*jsonDocument, error) {
	for i := range g.references {
		r := &g.references[i]
		if r.Name != name && (in.base == "" || r.Name != in.base+name) {
			continue
		}
		if d := g.documents[r.Name]; d != nil {
			return d, nil
		}
		d, err := parseJSONSchema(r.Text)
		if err != nil {
			return nil, fmt.Errorf("reference %q: %w", clip(r.Name), err)
		}
		g.documents[r.Name] = d
		return d, nil
	}
	return nil, nil
}

// part returns what a JSON pointer, as it stands in a "$ref", names; nil if there is no such part.
func (d *jsonDocument) part(pointer string) any {
	at := d.root
	for pointer != "" {
		name, ok := strings.CutPrefix(pointer, "/")
		if !ok {
			return nil
		}
		name, pointer = cutPointer(name)
		switch v := at.(type) {
		case map[string]any:
			at = v[name]
		case []any:
			i, err := strconv.ParseUint(name, 10, 31)
			if err != nil || i >= uint64(len(v)) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

// cutPointer splits the first name off a JSON pointer.
func cutPointer(pointer string) (name, rest string) {
	name = pointer
	if i := strings.IndexByte(pointer, '/'); i >= 0 {
		name, rest = pointer[:i], pointer[i:]
	}
	return pointerEscapes.Replace(percentDecoded(name)), rest
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// percentDecoded is a part of a URI with its bytes as they are meant: <Row> for %3CRow%3E.
func percentDecoded(s string) string {
	var out []byte
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 || i+3 > len(s) {
			return string(append(out, s...))
		}
		out = append(out, s[:i]...)
		if b, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
			out, s = append(out, byte(b)), s[i+3:]
		} else {
			out, s = append(out, '%'), s[i+1:]
		}
	}
}
