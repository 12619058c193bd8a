package format

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/twmb/avro"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// Avro is read by the schema with which it was written: a value is one record, and a record is one row. Its fields are
// the columns, in the schema's order.
//
//	boolean, int, long, float, double    bool, int32, int64, float32, float64
//	string, enum                         utf8
//	bytes, fixed                         binary, fixed_size_binary
//	decimal                              decimal128 or decimal256
//	date, time-*, timestamp-*            date32, time32 or time64, timestamp in UTC
//	local-timestamp-*                    timestamp without a zone
//	record, array, map                   struct, list, map
//	[null, T]                            T, with nulls
//	a union of numbers                   float64
//	another union                        dense_union
//
// An array of numbers that is a column of its own is a list of fixed size, as in JSON. Where a record's type contains
// itself, the inner one is left out: Arrow has no such types. Config.LeftOut says so, and counts.
//
// The schema is parsed by a library, and made into a plan: a tree of what to read, and of what to skip. The bytes are
// read by the plan alone, straight into Arrow's buffers, because values of interface{} cost ten times as much.

// The codes of Avro.
const (
	CodeAvroInvalid  = "avro_invalid"   // the body is not what its schema says
	CodeAvroTooLarge = "avro_too_large" // more items or nesting than the limits
)

// avroFormat is Avro as the value of a message.
var avroFormat = spec{
	name:        Avro,
	title:       "Avro",
	contentType: "avro",
	decoder: func(Config) valueDecoder {
		return withoutSchema{CodeAvroInvalid, ": set source.schema_file to the schema with which it was written"}
	},
	invalid:    CodeAvroInvalid,
	tooLarge:   CodeAvroTooLarge,
	compile:    compileAvro,
	schemaType: SchemaAvro,
}

func compileAvro(c Config, s *Schema) (valueDecoder, error) {
	parsed, err := parseAvro(s)
	if err != nil {
		return nil, err
	}
	nodes := avroNodes{named: map[string]*avroNode{}}
	root, err := nodes.node(parsed.Root(), "")
	if err != nil {
		return nil, err
	}
	d := &avroDecoder{config: c}
	switch root.kind {
	case avroRecord:
		d.plans = []*avroPlan{newAvroPlan(root, c)}
	case avroUnion:
		d.union = true
		for _, b := range root.branches {
			if b.kind != avroRecord {
				return nil, fmt.Errorf("a row is a record, and this is a union with %s", b.kind)
			}
			d.plans = append(d.plans, newAvroPlan(b, c))
		}
	default:
		return nil, fmt.Errorf("a row is a record, and this is %s; wrap it into a record", root.kind)
	}
	for _, p := range d.plans {
		if p.err != nil {
			return nil, p.err
		}
	}
	return d, nil
}

// avroDecoder reads the bodies of one schema.
type avroDecoder struct {
	config Config
	plans  []*avroPlan // of the record, or of each branch of a union of records
	union  bool
}

// avroPlan reads a record.
type avroPlan struct {
	err     error
	root    *avroShape
	columns []*avroShape // of the Arrow record
	shapes  int          // number of shapes, which number the state of reading
	schema  *arrow.Schema
	flat    bool // all columns are numbers, or lists of numbers
	numbers int  // number of columns that are numbers
	lists   int  // number of columns that are lists of numbers
	left    LeftOut

	sized atomic.Pointer[avroSized] // of the last record that has lists
}

// avroSized is the schema of records whose lists have certain lengths.
type avroSized struct {
	lengths []int32 // of the columns; 0: not a list of fixed size
	schema  *arrow.Schema
}

func (d *avroDecoder) decode(_ context.Context, body []byte, a *Arena) (arrow.Record, error) {
	r := avroReader{b: body, left: a.budget(ipcguard.MessageLimits().Decoded)}
	p := d.plans[0]
	if d.union {
		i := r.long()
		if i < 0 || i >= int64(len(d.plans)) {
			return nil, errorf(CodeAvroInvalid, "branch %d of a union of %d", i, len(d.plans))
		}
		p = d.plans[i]
	}
	rec := p.read(&r)
	if r.err == nil && len(r.b) > 0 {
		r.err = errorf(CodeAvroInvalid, "%d bytes are left behind the record: it was written with another schema", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	a.spend(r.spent)
	d.config.count(r.lost)
	return rec, nil
}

// read makes a record of what is there, or leaves an error in the reader.
func (p *avroPlan) read(r *avroReader) arrow.Record {
	if p.flat {
		again := *r
		if rec, ok := p.readFlat(r); ok {
			return rec
		}
		*r = again // there is a null
	}
	return p.readColumns(r)
}

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

// avroKind is how a value is encoded.
type avroKind uint8

const (
	avroNull avroKind = iota
	avroBoolean
	avroInt
	avroLong
	avroFloat
	avroDouble
	avroBytes
	avroString
	avroFixed
	avroEnum
	avroArray
	avroMap
	avroRecord
	avroUnion
)

func (k avroKind) String() string {
	return [...]string{"null", "a boolean", "an int", "a long", "a float", "a double", "bytes", "a string", "a fixed", "an enum", "an array", "a map", "a record", "a union"}[k]
}

// avroTypes are the names of the kinds in schemas.
var avroTypes = []string{"null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum", "array", "map", "record", "union"}

// avroNode is a type of a schema. A named type is one node wherever it is used, so nodes may form rings.
type avroNode struct {
	kind     avroKind
	logical  string
	name     string      // of a record, an enum or a fixed, without its namespace
	names    []string    // of the fields of a record
	fields   []*avroNode // of a record
	items    *avroNode   // of an array or a map
	branches []*avroNode // of a union
	symbols  []string    // of an enum
	size     int         // of a fixed

	precision, scale int32 // of a decimal

	least int // bytes that a value takes at least
	exact int // bytes that each value takes; −1: they differ
}

const (
	// mostAvroTypes bounds the types of a schema.
	mostAvroTypes = 1 << 16

	// mostAvroBytes stands for all sizes beyond those of any message.
	mostAvroBytes = 1 << 31
)

// avroNodes makes nodes of a parsed schema.
type avroNodes struct {
	named map[string]*avroNode // by full name
	count int
}

// node makes the node of a type that is named or used within a namespace.
func (a *avroNodes) node(s *avro.SchemaNode, namespace string) (*avroNode, error) {
	if a.count++; a.count > mostAvroTypes {
		return nil, fmt.Errorf("it has more than %d types", mostAvroTypes)
	}
	n := &avroNode{exact: -1, logical: s.LogicalType, precision: int32(s.Precision), scale: int32(s.Scale)}
	switch s.Type {
	case "null", "boolean", "int", "long", "float", "double", "bytes", "string":
		n.kind = avroKind(slices.Index(avroTypes, s.Type))
		n.least, n.exact = []int{0, 1, 1, 1, 4, 8, 1, 1}[n.kind], []int{0, 1, -1, -1, 4, 8, -1, -1}[n.kind]
		return n, nil
	case "fixed":
		n.kind, n.size, n.least, n.exact = avroFixed, s.Size, s.Size, s.Size
		a.add(s, n)
		return n, nil
	case "enum":
		n.kind, n.symbols, n.least = avroEnum, s.Symbols, 1
		a.add(s, n)
		return n, nil
	case "array", "map":
		n.kind, n.least = avroArray, 1
		items := s.Items
		if s.Type == "map" {
			n.kind, items = avroMap, s.Values
		}
		var err error
		n.items, err = a.node(items, namespace)
		return n, err
	case "record", "error":
		return n, a.record(s, n)
	case "union":
		n.kind, n.least = avroUnion, 1
		for i := range s.Branches {
			b, err := a.node(&s.Branches[i], namespace)
			if err != nil {
				return nil, err
			}
			n.branches = append(n.branches, b)
		}
		return n, nil
	}
	for _, name := range []string{namespace + "." + s.Type, s.Type} {
		if known := a.named[name]; known != nil {
			return known, nil
		}
	}
	return nil, fmt.Errorf("type %q is not known", clip(s.Type))
}

func (a *avroNodes) record(s *avro.SchemaNode, n *avroNode) error {
	n.kind = avroRecord
	a.add(s, n)
	exact, namespace := 0, s.Namespace
	if i := strings.LastIndexByte(s.Name, '.'); i >= 0 {
		namespace = s.Name[:i]
	}
	for i := range s.Fields {
		f, err := a.node(&s.Fields[i].Type, namespace)
		if err != nil {
			return err
		}
		n.names, n.fields = append(n.names, s.Fields[i].Name), append(n.fields, f)
		n.least = min(n.least+f.least, mostAvroBytes) // of a record within itself what is known so far
		if exact >= 0 && f.exact >= 0 {
			exact = min(exact+f.exact, mostAvroBytes)
		} else {
			exact = -1
		}
	}
	n.exact = exact
	return nil
}

// add notes a named type.
func (a *avroNodes) add(s *avro.SchemaNode, n *avroNode) {
	name := s.Name
	if s.Namespace != "" && !strings.Contains(name, ".") {
		name = s.Namespace + "." + name
	}
	n.name, a.named[name] = name[strings.LastIndexByte(name, '.')+1:], n
}

// without returns the one branch of a union of null and another type, and the number of the null; nil for other unions.
func (n *avroNode) without() (other *avroNode, null int) {
	if n.kind != avroUnion || len(n.branches) != 2 {
		return nil, 0
	}
	for i, b := range n.branches {
		if b.kind == avroNull {
			return n.branches[1-i], i
		}
	}
	return nil, 0
}

// isNumber reports whether values are numbers and nothing else.
func (n *avroNode) isNumber() bool {
	return n.kind >= avroInt && n.kind <= avroDouble && !n.isTime()
}

func (n *avroNode) isTime() bool {
	switch n.logical {
	case "date", "time-millis":
		return n.kind == avroInt
	case "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos":
		return n.kind == avroLong
	}
	return false
}

// ofNumbers reports whether n is a union of numbers, with or without null.
func (n *avroNode) ofNumbers() bool {
	numbers := 0
	for _, b := range n.branches {
		if b.isNumber() {
			numbers++
		} else if b.kind != avroNull {
			return false
		}
	}
	return n.kind == avroUnion && numbers > 1
}

// avroShape is a node that is read into a column of the Arrow record, or into a part of one. Shapes form a tree: a
// record within itself is left out.
type avroShape struct {
	name  string
	node  *avroNode
	null  int            // of [null, T], which is the shape of T: number of the null branch; −1: it is no such union
	typ   arrow.DataType // nil: only what is within is read
	place int            // among the states of reading

	left     bool         // of a record: its fields that are skipped are those that no column can hold
	children []*avroShape // of a record, a union; nil where skipped. Of an array, its items; of a map, keys and values

	slot int // of a column that is a number or a list of numbers: its place among those
}

// avroShaper makes the shapes of a plan.
type avroShaper struct {
	plan *avroPlan
	path []*avroNode // what is being shaped, from the row's record inwards
	at   []string    // names of the fields around
}

// newAvroPlan shapes a record: all its fields, or those that are read alone.
func newAvroPlan(root *avroNode, c Config) *avroPlan {
	p := &avroPlan{}
	if c.Only {
		columns := slices.Clone(c.Columns)
		for _, name := range c.Also {
			if slices.Contains(root.names, name) {
				columns = append(columns, name)
			}
		}
		p.root = (&avroShaper{plan: p}).only(root, columns)
	}
	if p.root == nil {
		p.columns, p.shapes, p.left = nil, 0, LeftOut{}
		p.root = (&avroShaper{plan: p}).shape("", root)
		p.columns = slices.DeleteFunc(slices.Clone(p.root.children), func(f *avroShape) bool { return f == nil })
	}
	if p.shapes > ipcguard.MessageLimits().Fields {
		p.err = fmt.Errorf("it has more than %d fields, with those within fields", ipcguard.MessageLimits().Fields)
		return p
	}
	p.left.tell(&c, root.name)
	fields := make([]arrow.Field, len(p.columns))
	p.flat = len(fields) > 0
	for i, col := range p.columns {
		fields[i] = arrow.Field{Name: col.name, Type: col.typ, Nullable: true}
		switch {
		case col.number():
			col.slot = p.numbers
			p.numbers++
		case col.numbers():
			col.slot = p.lists
			p.lists++
		default:
			p.flat = false
		}
	}
	p.schema = arrow.NewSchema(fields, nil)
	return p
}

// number reports whether the column is of plain numbers.
func (s *avroShape) number() bool { return s.node.isNumber() || s.node.ofNumbers() }

// numbers reports whether the column is of arrays of plain numbers.
func (s *avroShape) numbers() bool { return s.node.kind == avroArray && s.children[0].number() }

// only shapes what the columns name, as fields or as paths through records; nil if one of them is not to be had so.
func (s *avroShaper) only(root *avroNode, columns []string) *avroShape {
	s.path = append(s.path, root)
	top := s.new("", root)
	top.children = make([]*avroShape, len(root.fields))
	for _, name := range columns {
		found := s.lift(top, name, strings.Split(name, "."))
		if found == nil {
			return nil
		}
		if !slices.Contains(s.plan.columns, found) {
			s.plan.columns = append(s.plan.columns, found)
		}
	}
	return top
}

// lift shapes the field at a path within a record, as a column that has the path's name.
func (s *avroShaper) lift(in *avroShape, name string, path []string) *avroShape {
	i := slices.Index(in.node.names, path[0])
	if i < 0 {
		return nil
	}
	child := in.children[i]
	if len(path) == 1 {
		if child == nil {
			child = s.shape(name, in.node.fields[i])
			in.children[i] = child
		}
		if child == nil || child.typ == nil || child.name != name {
			return nil
		}
		return child
	}
	if child == nil {
		record, null := in.node.fields[i], -1
		if other, at := record.without(); other != nil {
			record, null = other, at
		}
		if record.kind != avroRecord || len(s.path) > avroDepth {
			return nil
		}
		child = s.new("", record)
		child.null, child.children = null, make([]*avroShape, len(record.fields))
		in.children[i] = child
	}
	if child.typ != nil {
		return nil
	}
	s.path = append(s.path, child.node)
	defer func() { s.path = s.path[:len(s.path)-1] }()
	return s.lift(child, name, path[1:])
}

func (s *avroShaper) new(name string, n *avroNode) *avroShape {
	shape := &avroShape{name: name, node: n, null: -1, place: s.plan.shapes}
	s.plan.shapes++
	return shape
}

// shape makes a column of a node; nil where Arrow has none.
func (s *avroShaper) shape(name string, n *avroNode) *avroShape {
	null := -1
	if other, at := n.without(); other != nil {
		n, null = other, at
	}
	limits := ipcguard.MessageLimits()
	if slices.Contains(s.path, n) || len(s.path) > limits.Depth-2 || s.plan.shapes > limits.Fields {
		s.plan.left.add(s.at)
		return nil
	}
	shape := s.new(name, n)
	shape.null = null
	if n.kind == avroRecord || n.kind == avroArray || n.kind == avroMap || n.kind == avroUnion {
		s.path = append(s.path, n)
		defer func() { s.path = s.path[:len(s.path)-1] }()
	}
	switch {
	case n.kind == avroRecord:
		var fields []arrow.Field
		for i, f := range n.fields {
			s.at = append(s.at, n.names[i])
			child := s.shape(n.names[i], f)
			s.at = s.at[:len(s.at)-1]
			if shape.children = append(shape.children, child); child != nil {
				fields = append(fields, arrow.Field{Name: child.name, Type: child.typ, Nullable: true})
			}
			shape.left = shape.left || child == nil
		}
		shape.typ = arrow.StructOf(fields...)
	case n.kind == avroArray || n.kind == avroMap:
		return s.items(shape)
	case n.ofNumbers():
		shape.typ = arrow.PrimitiveTypes.Float64
	case n.kind == avroUnion:
		return s.union(shape)
	default:
		shape.typ = n.leaf()
	}
	return shape
}

func (s *avroShaper) items(shape *avroShape) *avroShape {
	items := s.shape("item", shape.node.items)
	if items == nil {
		return nil
	}
	if shape.node.kind == avroArray {
		shape.children, shape.typ = []*avroShape{items}, arrow.ListOf(items.typ)
		return shape
	}
	keys := s.new("key", &avroNode{kind: avroString, least: 1, exact: -1})
	keys.typ = arrow.BinaryTypes.String
	shape.children, shape.typ = []*avroShape{keys, items}, arrow.MapOf(keys.typ, items.typ)
	return shape
}

func (s *avroShaper) union(shape *avroShape) *avroShape {
	var fields []arrow.Field
	var codes []arrow.UnionTypeCode
	for i, b := range shape.node.branches {
		child := s.shape(b.title(), b)
		if child == nil || i > 127 {
			return nil
		}
		shape.children = append(shape.children, child)
		fields = append(fields, arrow.Field{Name: child.name, Type: child.typ, Nullable: true})
		codes = append(codes, arrow.UnionTypeCode(i))
	}
	shape.typ = arrow.DenseUnionOf(fields, codes)
	return shape
}

// title names a branch of a union: a named type by its name, another by its kind.
func (n *avroNode) title() string {
	if n.name != "" {
		return n.name
	}
	return avroTypes[n.kind]
}

// leaf is the Arrow type of a node that holds no others.
func (n *avroNode) leaf() arrow.DataType {
	switch n.kind {
	case avroNull:
		return arrow.Null
	case avroBoolean:
		return arrow.FixedWidthTypes.Boolean
	case avroInt:
		switch n.logical {
		case "date":
			return arrow.FixedWidthTypes.Date32
		case "time-millis":
			return arrow.FixedWidthTypes.Time32ms
		}
		return arrow.PrimitiveTypes.Int32
	case avroLong:
		return n.long()
	case avroFloat:
		return arrow.PrimitiveTypes.Float32
	case avroDouble:
		return arrow.PrimitiveTypes.Float64
	case avroString, avroEnum:
		return arrow.BinaryTypes.String
	}
	switch {
	case n.isDecimal() && n.precision <= 38:
		return &arrow.Decimal128Type{Precision: n.precision, Scale: n.scale}
	case n.isDecimal():
		return &arrow.Decimal256Type{Precision: n.precision, Scale: n.scale}
	case n.kind == avroFixed:
		return &arrow.FixedSizeBinaryType{ByteWidth: n.size}
	}
	return arrow.BinaryTypes.Binary
}

func (n *avroNode) long() arrow.DataType {
	zone := "UTC"
	logical, local := strings.CutPrefix(n.logical, "local-")
	if local {
		zone = ""
	}
	switch logical {
	case "time-micros":
		return arrow.FixedWidthTypes.Time64us
	case "timestamp-millis":
		return &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: zone}
	case "timestamp-micros":
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: zone}
	case "timestamp-nanos":
		return &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: zone}
	}
	return arrow.PrimitiveTypes.Int64
}

// isDecimal reports whether n is a decimal that Arrow has a type for.
func (n *avroNode) isDecimal() bool {
	return n.logical == "decimal" && (n.kind == avroBytes || n.kind == avroFixed) && n.precision >= 1 && n.precision <= mostDigitsOfDecimal && n.scale <= n.precision
}
