package format

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/lca-stream/lca-stream/internal/rowrecord"
	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// Protobuf is read by the schema with which it was written: a value is one message, and a message is one row. Between
// the prefix and the message stand indexes that say which message of the schema it is. Its fields are the columns, in the
// schema's order.
//
//	bool, float, double                      bool, float32, float64
//	int32, sint32, sfixed32, and so on       int32, uint32, int64, uint64
//	string, enum                             utf8
//	bytes                                    binary
//	a message, repeated, map                 struct, list, map
//	google.protobuf.DoubleValue and so on    the value, with nulls
//	google.protobuf.Timestamp, Duration      timestamp and duration in microseconds
//	google.type.Decimal, confluent's too     float64
//
// A field that tells whether it is there (optional, of a oneof, of proto2, a message) is null where it is not, unless the
// schema has another default; any other is then 0 or empty, as Protobuf has it. Where a message's type contains itself,
// the inner one is left out: Arrow has no such types. Config.LeftOut says so, and counts.
//
// The schema is parsed by a library and made into a plan, along which the bytes are read. The library's own messages
// (dynamicpb) cost several times as much, because every value of theirs is an object.

// The codes of Protobuf.
const (
	CodeProtobufInvalid  = "protobuf_invalid"   // the body is not what its schema says
	CodeProtobufTooLarge = "protobuf_too_large" // more items than the limits
)

// protobufFormat is Protobuf as the value of a message.
var protobufFormat = spec{
	name:        Protobuf,
	title:       "Protobuf",
	contentType: "protobuf",
	decoder: func(Config) valueDecoder {
		return withoutSchema{CodeProtobufInvalid, ": write it with a schema registry's serializer"}
	},
	invalid:    CodeProtobufInvalid,
	tooLarge:   CodeProtobufTooLarge,
	compile:    compileProtobuf,
	schemaType: SchemaProtobuf,
}

// protobufDecoder reads the bodies of one schema.
type protobufDecoder struct {
	file   protoreflect.FileDescriptor
	config Config

	mu    sync.RWMutex
	plans map[string]*protoPlan // by the bytes of the indexes
}

func compileProtobuf(c Config, s *Schema) (valueDecoder, error) {
	file, err := parseProtobuf(s)
	if err != nil {
		return nil, err
	}
	if file.Messages().Len() == 0 {
		return nil, fmt.Errorf("it has no message")
	}
	return &protobufDecoder{file: file, config: c, plans: map[string]*protoPlan{}}, nil
}

// decode reads one message.
func (d *protobufDecoder) decode(_ context.Context, body []byte, a *Arena) (arrow.Record, error) {
	p, body, err := d.plan(body)
	if err != nil {
		return nil, err
	}
	r := protoReader{left: a.budget(ipcguard.MessageLimits().Decoded)}
	rec := p.read(&r, body)
	if r.err != nil {
		return nil, r.err
	}
	a.spend(r.spent)
	d.config.count(r.lost)
	return rec, nil
}

const (
	// mostIndexes bounds how deep the message of a value is nested in others of the schema.
	mostIndexes = 32

	// mostProtoPlans bounds the messages of one schema whose plans are kept.
	mostProtoPlans = 64
)

// plan returns the plan of the message that the indexes before a body choose, and the body without them.
func (d *protobufDecoder) plan(body []byte) (*protoPlan, []byte, error) {
	var indexes [mostIndexes]int64
	count, rest := int64(0), body
	next := func() (v int64, ok bool) {
		v, n := binary.Varint(rest)
		rest = rest[max(n, 0):]
		return v, n > 0 && v >= 0
	}
	count, ok := next()
	if !ok || count > mostIndexes {
		return nil, nil, errorf(CodeProtobufInvalid, "the indexes that choose a message of the schema are cut off, or %d of them; was the value written by a registry's serializer?", count)
	}
	for i := range count {
		if indexes[i], ok = next(); !ok {
			return nil, nil, errorf(CodeProtobufInvalid, "the %d indexes that choose a message of the schema are cut off; was the value written by a registry's serializer?", count)
		}
	}
	key := body[:len(body)-len(rest)]
	d.mu.RLock()
	p := d.plans[string(key)]
	d.mu.RUnlock()
	if p == nil {
		if p = d.prepare(indexes[:max(count, 1)]); p.err == nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.plans) >= mostProtoPlans {
				clear(d.plans)
			}
			d.plans[string(key)] = p
		}
	}
	if p.err != nil {
		return nil, nil, p.err
	}
	return p, rest, nil
}

// prepare makes the plan of a message of the schema.
func (d *protobufDecoder) prepare(indexes []int64) *protoPlan {
	messages := d.file.Messages()
	var m protoreflect.MessageDescriptor
	for _, i := range indexes {
		if i >= int64(messages.Len()) {
			return &protoPlan{err: errorf(CodeProtobufInvalid, "message %v of the schema, which has %d there", indexes, messages.Len())}
		}
		m = messages.Get(int(i))
		messages = m.Messages()
	}
	return newProtoPlan(m, d.config)
}

// protoFile is the name of the schema itself, which nothing imports.
const protoFile = "schema of the registry"

// parseProtobuf parses a schema with all that it imports. Registries have text, as in a .proto file, or a descriptor in
// base64: Confluent's client for Python registers the latter.
func parseProtobuf(s *Schema) (protoreflect.FileDescriptor, error) {
	texts := map[string]string{}
	for name, text := range knownProtos {
		texts[name] = text
	}
	for _, r := range s.References {
		texts[r.Name] = r.Text
	}
	texts[protoFile] = s.Text
	compiler := protocompile.Compiler{MaxParallelism: 1, Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(
		func(path string) (protocompile.SearchResult, error) {
			text, ok := texts[path]
			if !ok {
				return protocompile.SearchResult{}, fs.ErrNotExist
			}
			if d := descriptor(text); d != nil {
				d.Name = proto.String(path)
				return protocompile.SearchResult{Proto: d}, nil
			}
			return protocompile.SearchResult{Source: strings.NewReader(text)}, nil
		}))}
	files, err := compiler.Compile(context.Background(), protoFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; register it with all that it imports, as references", err)
	}
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// descriptor returns the file that a text is a descriptor of, in base64; nil if it is none.
func descriptor(text string) *descriptorpb.FileDescriptorProto {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil
	}
	d := &descriptorpb.FileDescriptorProto{}
	if proto.Unmarshal(raw, d) != nil || len(d.MessageType) == 0 && len(d.EnumType) == 0 && len(d.Extension) == 0 {
		return nil
	}
	nameJSON(d.Extension)
	for _, m := range d.MessageType {
		nameAllJSON(m)
	}
	return d
}

// nameAllJSON gives the fields of a message, and of those within it, the names that they have in JSON. protoc's Python code leaves
// them out of its descriptors, and the compiler takes them for empty.
func nameAllJSON(m *descriptorpb.DescriptorProto) {
	nameJSON(m.Field)
	nameJSON(m.Extension)
	for _, inner := range m.NestedType {
		nameAllJSON(inner)
	}
}

func nameJSON(fields []*descriptorpb.FieldDescriptorProto) {
	for _, f := range fields {
		if f.JsonName == nil {
			f.JsonName = proto.String(camel(f.GetName()))
		}
	}
}

// camel is a name without underscores, with an upper-case letter after each.
func camel(name string) string {
	var b strings.Builder
	upper := false
	for _, r := range name {
		switch {
		case r == '_':
			upper = true
			continue
		case upper:
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		upper = false
	}
	return b.String()
}

// knownProtos are files that serializers import without registering them, in addition to those of google/protobuf.
var knownProtos = map[string]string{
	"confluent/meta.proto": `syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
`,
	"confluent/type/decimal.proto": `syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
`,
	"confluent/types/decimal.proto": `syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
`,
	"google/type/decimal.proto": `syntax = "proto3";
package google.type;
message Decimal { string value = 1; }
`,
}

// protoForm is what the column of a field holds.
type protoForm uint8

const (
	protoScalar protoForm = iota
	protoEnum
	protoStruct
	protoList
	protoMap
	protoWrapper
	protoTimestamp
	protoDuration
	protoDecimal     // of confluent: an integer and a scale
	protoDecimalText // of google
)

// protoForms are messages that stand for a value.
var protoForms = map[protoreflect.FullName]protoForm{
	"google.protobuf.DoubleValue": protoWrapper, "google.protobuf.FloatValue": protoWrapper, "google.protobuf.BoolValue": protoWrapper,
	"google.protobuf.Int64Value": protoWrapper, "google.protobuf.UInt64Value": protoWrapper, "google.protobuf.Int32Value": protoWrapper,
	"google.protobuf.UInt32Value": protoWrapper, "google.protobuf.StringValue": protoWrapper, "google.protobuf.BytesValue": protoWrapper,
	"google.protobuf.Timestamp": protoTimestamp, "google.protobuf.Duration": protoDuration,
	"confluent.type.Decimal": protoDecimal, "google.type.Decimal": protoDecimalText,
}

// formOf is what the column of a field holds.
func formOf(d protoreflect.FieldDescriptor) protoForm {
	switch {
	case d.IsMap():
		return protoMap
	case d.IsList():
		return protoList
	}
	return formOfOne(d)
}

// formOfOne is what a column of single values of a field holds.
func formOfOne(d protoreflect.FieldDescriptor) protoForm {
	switch d.Kind() {
	case protoreflect.EnumKind:
		return protoEnum
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if form, ok := protoForms[d.Message().FullName()]; ok {
			return form
		}
		return protoStruct
	}
	return protoScalar
}

func isProtoNumber(k protoreflect.Kind) bool {
	switch k {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.GroupKind, protoreflect.EnumKind, protoreflect.BoolKind:
		return false
	}
	return true
}

func protoType(k protoreflect.Kind) arrow.DataType {
	switch k {
	case protoreflect.BoolKind:
		return arrow.FixedWidthTypes.Boolean
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return arrow.PrimitiveTypes.Int32
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return arrow.PrimitiveTypes.Uint32
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return arrow.PrimitiveTypes.Int64
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return arrow.PrimitiveTypes.Uint64
	case protoreflect.FloatKind:
		return arrow.PrimitiveTypes.Float32
	case protoreflect.DoubleKind:
		return arrow.PrimitiveTypes.Float64
	case protoreflect.StringKind:
		return arrow.BinaryTypes.String
	}
	return arrow.BinaryTypes.Binary
}

// bitsOf is a number as a frame holds it: a float by its bits, another as an int64.
func bitsOf(k protoreflect.Kind, v protoreflect.Value) uint64 {
	switch k {
	case protoreflect.BoolKind:
		if v.Bool() {
			return 1
		}
		return 0
	case protoreflect.EnumKind:
		return uint64(v.Enum())
	case protoreflect.FloatKind:
		return uint64(math.Float32bits(float32(v.Float())))
	case protoreflect.DoubleKind:
		return math.Float64bits(v.Float())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return v.Uint()
	}
	return uint64(v.Int())
}

// protoPlan reads the messages of one type.
type protoPlan struct {
	err     error
	root    *protoMessage
	frame   protoFrame    // an empty one
	pool    sync.Pool     // of frames that are not in use
	columns []*protoShape // of the Arrow record
	shapes  int           // number of shapes, which number the state of writing columns
	schema  *arrow.Schema
	flat    bool // all columns are numbers
	nested  bool // there is a column that has no single value
	left    LeftOut
}

// protoMessage is the fields of a message that are read; all others are passed over.
type protoMessage struct {
	low      [64]*protoField // by number
	high     map[protowire.Number]*protoField
	required []protoRequired
	left     []protowire.Number // of fields that no column can hold
}

// protoRequired is a field that a message must have.
type protoRequired struct {
	slot int
	name string
}

func (m *protoMessage) field(n protowire.Number) *protoField {
	if n < protowire.Number(len(m.low)) {
		return m.low[n]
	}
	return m.high[n]
}

func (m *protoMessage) add(n protowire.Number, f *protoField) {
	if n < protowire.Number(len(m.low)) {
		m.low[n] = f
		return
	}
	if m.high == nil {
		m.high = map[protowire.Number]*protoField{}
	}
	m.high[n] = f
}

// protoField is how a field is read into the frame of its message. A message that is not repeated has its fields in the
// same frame, so that it may come in parts, as Protobuf allows.
type protoField struct {
	kind      protoreflect.Kind
	slot, end int           // of the frame: its own, and behind those of its fields
	list      int           // place among the lists of the frame; −1: it is not repeated
	lists     [2]int        // of its fields, among the lists of the frame: the first, and behind the last
	message   *protoMessage // nil: a scalar
	frame     *protoFrame   // of an element; nil: elements are scalars
	rivals    []*protoField // the other fields of its oneof
	home      *protoFrame   // of a field of a oneof: an empty frame as that in which it is
}

// wire is the wire type of a value that is not packed.
func (f *protoField) wire() protowire.Type {
	switch f.kind {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.Fixed64Type
	case protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.Fixed32Type
	}
	return protowire.VarintType
}

// protoShape is a field as a column of the Arrow record, or as a part of one.
type protoShape struct {
	name     string
	typ      arrow.DataType
	place    int // among the states of writing columns
	form     protoForm
	field    *protoField
	fields   []*protoShape // of a struct; the items of a list; keys and values of a map; the value of a wrapper
	nullable bool          // it is null unless its slot is set
	above    []int         // slots of the messages that it is lifted out of: it is null unless all are set
	enum     protoreflect.EnumValueDescriptors
}

// protoPlanner makes the plan of a message.
type protoPlanner struct {
	plan *protoPlan
	path []protoreflect.FullName // of the messages around
	at   []string                // names of the fields around
}

func newProtoPlan(m protoreflect.MessageDescriptor, c Config) *protoPlan {
	var p *protoPlan
	if c.Only && len(c.Columns) > 0 {
		p = newProtoPlanOf(m, c.Columns)
	}
	if p == nil {
		p = newProtoPlanOf(m, nil)
	}
	if limit := ipcguard.MessageLimits().Fields; p.shapes > limit {
		p.err = errorf(CodeSchemaInvalid, "the message %s has more than %d fields, with those within fields", m.FullName(), limit)
		return p
	}
	p.left.tell(&c, string(m.FullName()))
	fields := make([]arrow.Field, len(p.columns))
	p.flat = len(fields) > 0
	for i, col := range p.columns {
		p.flat = p.flat && col.form == protoScalar && isProtoNumber(col.field.kind)
		p.nested = p.nested || !rowrecord.Shows(col.typ)
		fields[i] = arrow.Field{Name: col.name, Type: col.typ, Nullable: true}
	}
	p.schema = arrow.NewSchema(fields, nil)
	return p
}

// newProtoPlanOf makes a plan of the columns with these names, which may be paths, or of all without names. It is nil if a
// name is not to be had.
func newProtoPlanOf(m protoreflect.MessageDescriptor, names []string) *protoPlan {
	p := &protoPlan{root: &protoMessage{}}
	b := protoPlanner{plan: p}
	if len(names) == 0 {
		p.columns = b.fields(m, p.root, &p.frame)
		p.frame.made()
		return p
	}
	p.columns = make([]*protoShape, len(names))
	wants := make([]jsonWant, len(names))
	for i, name := range names {
		wants[i] = jsonWant{name: i, rest: name}
	}
	b.lift(m, p.root, &p.frame, wants, names, nil)
	p.frame.made()
	if slices.Contains(p.columns, nil) {
		return nil
	}
	return p
}

func (b *protoPlanner) fields(m protoreflect.MessageDescriptor, into *protoMessage, frame *protoFrame) []*protoShape {
	b.path = append(b.path, m.FullName())
	defer func() { b.path = b.path[:len(b.path)-1] }()
	known := map[protoreflect.FieldNumber]*protoField{}
	var all []*protoShape
	for i := range m.Fields().Len() {
		d := m.Fields().Get(i)
		if s := b.shape(string(d.Name()), d, frame); s != nil {
			into.add(d.Number(), s.field)
			known[d.Number()] = s.field
			if d.Cardinality() == protoreflect.Required {
				into.required = append(into.required, protoRequired{s.field.slot, string(d.Name())})
			}
			all = append(all, s)
		} else {
			into.left = append(into.left, d.Number())
		}
	}
	rivals(m, known, into, frame)
	return all
}

// lift shapes the fields of a message that are wanted, as columns of the record.
func (b *protoPlanner) lift(m protoreflect.MessageDescriptor, into *protoMessage, frame *protoFrame, wants []jsonWant, names []string, above []int) {
	b.path = append(b.path, m.FullName())
	defer func() { b.path = b.path[:len(b.path)-1] }()
	known := map[protoreflect.FieldNumber]*protoField{}
	for i := range m.Fields().Len() {
		d := m.Fields().Get(i)
		var inner []jsonWant
		for _, w := range wants {
			if w.rest == string(d.Name()) {
				if s := b.shape(names[w.name], d, frame); s != nil && len(inner) == 0 {
					s.above = above
					b.plan.columns[w.name], known[d.Number()] = s, s.field
				}
			} else if rest, ok := strings.CutPrefix(w.rest, string(d.Name())+"."); ok {
				inner = append(inner, jsonWant{name: w.name, rest: rest})
			}
		}
		if len(inner) > 0 && known[d.Number()] == nil && formOf(d) == protoStruct && !slices.Contains(b.path, d.Message().FullName()) {
			f := &protoField{kind: d.Kind(), slot: frame.slots, list: -1, lists: [2]int{frame.lists, 0}, message: &protoMessage{}}
			frame.slots++
			b.lift(d.Message(), f.message, frame, inner, names, append(slices.Clip(above), f.slot))
			f.end, f.lists[1] = frame.slots, frame.lists
			known[d.Number()] = f
		}
	}
	for n, f := range known {
		into.add(n, f)
	}
	rivals(m, known, into, frame)
}

// rivals lets the fields of each oneof know each other, because the last that comes counts. If one of them is wanted, the
// others are read too.
func rivals(m protoreflect.MessageDescriptor, known map[protoreflect.FieldNumber]*protoField, into *protoMessage, frame *protoFrame) {
	for i := range m.Oneofs().Len() {
		fields := m.Oneofs().Get(i).Fields()
		wanted := false
		for k := range fields.Len() {
			wanted = wanted || known[fields.Get(k).Number()] != nil
		}
		if !wanted || fields.Len() == 1 {
			continue
		}
		var all []*protoField
		for k := range fields.Len() {
			d := fields.Get(k)
			f := known[d.Number()]
			if f == nil {
				f = &protoField{kind: d.Kind(), slot: frame.slots, end: frame.slots + 1, list: -1}
				frame.slots++
				frame.text = frame.text || f.wire() == protowire.BytesType
				into.add(d.Number(), f)
			}
			all = append(all, f)
		}
		for _, f := range all {
			f.home = frame
			f.rivals = slices.DeleteFunc(slices.Clone(all), func(g *protoField) bool { return g == f })
		}
	}
}

// shape makes a column of a field; nil where Arrow has none.
func (b *protoPlanner) shape(name string, d protoreflect.FieldDescriptor, frame *protoFrame) *protoShape {
	b.at = append(b.at, name)
	defer func() { b.at = b.at[:len(b.at)-1] }()
	switch formOf(d) {
	case protoMap:
		return b.mapped(name, d, frame)
	case protoList:
		return b.listed(name, d, frame)
	}
	return b.one(name, d, frame, false)
}

func (b *protoPlanner) new(name string, form protoForm, f *protoField) *protoShape {
	s := &protoShape{name: name, place: b.plan.shapes, form: form, field: f}
	b.plan.shapes++
	return s
}

// one makes a column of single values. In a list the element has a frame of its own, whose only field it is.
func (b *protoPlanner) one(name string, d protoreflect.FieldDescriptor, frame *protoFrame, inList bool) *protoShape {
	limits := ipcguard.MessageLimits()
	if len(b.path) > limits.Depth-4 || b.plan.shapes > limits.Fields {
		b.plan.left.add(b.at)
		return nil
	}
	f := &protoField{kind: d.Kind(), slot: frame.slots, list: -1, lists: [2]int{frame.lists, 0}}
	frame.slots++
	s := b.new(name, formOfOne(d), f)
	s.nullable = !inList && d.HasPresence() && !d.HasDefault()
	frame.text = frame.text || f.wire() == protowire.BytesType && d.Message() == nil
	switch s.form {
	case protoScalar:
		s.typ = protoType(d.Kind())
		frame.preset(f.slot, d)
	case protoEnum:
		s.typ, s.enum = arrow.BinaryTypes.String, d.Enum().Values()
		frame.preset(f.slot, d)
	default:
		if slices.Contains(b.path, d.Message().FullName()) {
			b.plan.left.add(b.at)
			return nil
		}
		f.message = &protoMessage{}
		s.fields = b.fields(d.Message(), f.message, frame)
		b.typed(s)
	}
	f.end, f.lists[1] = frame.slots, frame.lists
	return s
}

// typed gives a column of messages its type. What stands for a value has no columns within.
func (b *protoPlanner) typed(s *protoShape) {
	switch s.form {
	case protoStruct:
		s.typ = structOf(s.fields)
	case protoWrapper:
		s.typ = s.fields[0].typ
	case protoTimestamp:
		s.typ = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	case protoDuration:
		s.typ = arrow.FixedWidthTypes.Duration_us
	default:
		s.typ = arrow.PrimitiveTypes.Float64
	}
}

func structOf(fields []*protoShape) arrow.DataType {
	all := make([]arrow.Field, len(fields))
	for i, f := range fields {
		all[i] = arrow.Field{Name: f.name, Type: f.typ, Nullable: true}
	}
	return arrow.StructOf(all...)
}

func (b *protoPlanner) listed(name string, d protoreflect.FieldDescriptor, frame *protoFrame) *protoShape {
	f := &protoField{kind: d.Kind(), slot: frame.slots, end: frame.slots + 1, list: frame.lists}
	frame.slots, frame.lists = frame.slots+1, frame.lists+1
	s := b.new(name, protoList, f)
	element := &protoFrame{}
	item := b.one("item", d, element, true)
	if item == nil {
		return nil
	}
	if item.field.message != nil {
		f.message, f.frame = item.field.message, element.made()
	}
	s.fields, s.typ = []*protoShape{item}, arrow.ListOf(item.typ)
	return s
}

// mapped makes a column of maps.
func (b *protoPlanner) mapped(name string, d protoreflect.FieldDescriptor, frame *protoFrame) *protoShape {
	f := &protoField{kind: protoreflect.MessageKind, slot: frame.slots, end: frame.slots + 1, list: frame.lists, message: &protoMessage{}}
	frame.slots, frame.lists = frame.slots+1, frame.lists+1
	s := b.new(name, protoMap, f)
	element := &protoFrame{}
	key, value := b.one("key", d.MapKey(), element, true), b.one("value", d.MapValue(), element, true)
	if key == nil || value == nil {
		return nil
	}
	f.message.add(1, key.field)
	f.message.add(2, value.field)
	f.frame = element.made()
	s.fields, s.typ = []*protoShape{key, value}, arrow.MapOf(key.typ, value.typ)
	return s
}
