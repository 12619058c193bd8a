package format

import (
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lca-stream/lca-stream/internal/rowrecord"
	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

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

// fields shapes all fields of a message.
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

// listed makes a column of lists.
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
