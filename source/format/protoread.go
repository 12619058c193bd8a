package format

import (
	"math"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoFrame is what was read of a message, with those within it that are not repeated: a slot for each field.
type protoFrame struct {
	slots, lists int
	text         bool         // there are fields of text or bytes
	set          []bool       // by slot: the field has come
	bits         []uint64     // by slot: a number
	texts        [][]byte     // by slot; aliases of the value
	items        []protoItems // by list
}

// protoItems are the elements of a repeated field.
type protoItems struct {
	bits   []uint64
	texts  [][]byte
	frames []*protoFrame
}

// preset lets the field of a slot have the default of the schema.
func (f *protoFrame) preset(slot int, d protoreflect.FieldDescriptor) {
	if d.IsList() {
		return
	}
	f.made()
	switch d.Kind() {
	case protoreflect.StringKind:
		f.texts[slot] = []byte(d.Default().String())
	case protoreflect.BytesKind:
		f.texts[slot] = d.Default().Bytes()
	default:
		f.bits[slot] = bitsOf(d.Kind(), d.Default())
	}
}

// made gives an empty frame room for its slots.
func (f *protoFrame) made() *protoFrame {
	f.bits = slices.Grow(f.bits, f.slots-len(f.bits))[:f.slots]
	if f.text {
		f.texts = slices.Grow(f.texts, f.slots-len(f.texts))[:f.slots]
	}
	return f
}

// empty makes dst as an empty frame is.
func (f *protoFrame) empty(dst *protoFrame) *protoFrame {
	dst.slots, dst.lists, dst.text = f.slots, f.lists, f.text
	dst.bits = append(dst.bits[:0], f.bits...)
	dst.texts = append(dst.texts[:0], f.texts...)
	dst.set = slices.Grow(dst.set[:0], f.slots)[:f.slots]
	clear(dst.set)
	dst.items = slices.Grow(dst.items[:0], f.lists)[:f.lists]
	for i := range dst.items {
		dst.items[i] = protoItems{bits: dst.items[i].bits[:0]}
	}
	return dst
}

// bytes is about what a frame takes.
func (f *protoFrame) bytes() int64 {
	return 160 + int64(len(f.bits))*9 + int64(len(f.texts))*24 + int64(f.lists)*72
}

// protoReader reads the encoding of Protobuf. Once there is an error it reads nothing more.
type protoReader struct {
	left  int64 // what may still be decoded to, in bytes
	spent int64
	lost  int // values that are left out
	err   error
}

func (r *protoReader) fail(code, text string, args ...any) {
	if r.err == nil {
		r.err = errorf(code, text, args...)
	}
}

// spend takes room for what is decoded.
func (r *protoReader) spend(n int64) bool {
	r.spent += n
	if r.left -= n; r.left < 0 {
		r.fail(CodeProtobufTooLarge, "the value decodes to more than %d bytes", r.spent+r.left)
	}
	return r.err == nil
}

// message reads the fields of a message into a frame.
func (r *protoReader) message(m *protoMessage, f *protoFrame, b []byte) {
	for len(b) > 0 && r.err == nil {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			r.fail(CodeProtobufInvalid, "a field's number: %w", protowire.ParseError(n))
			return
		}
		b = b[n:]
		field := m.field(number)
		if field == nil {
			n = protowire.ConsumeFieldValue(number, wire, b)
			if slices.Contains(m.left, number) {
				r.lost++
			}
		} else if n = r.field(field, f, number, wire, b); r.err != nil {
			return
		}
		if n < 0 {
			r.fail(CodeProtobufInvalid, "field %d: %w", number, protowire.ParseError(n))
			return
		}
		b = b[n:]
	}
	for _, field := range m.required {
		if r.err == nil && !f.set[field.slot] {
			r.fail(CodeProtobufInvalid, "the required field %q is missing", clip(field.name))
		}
	}
}

// field reads a value of a field, and returns how many bytes it takes; below 0 is an error of protowire.
func (r *protoReader) field(field *protoField, f *protoFrame, number protowire.Number, wire protowire.Type, b []byte) int {
	want := field.wire()
	if wire != want {
		if field.list >= 0 && wire == protowire.BytesType && want != protowire.StartGroupType {
			return r.packed(field, f, want, b)
		}
		return protowire.ConsumeFieldValue(number, wire, b) // as of a field that the schema does not have
	}
	bits, text, n := consume(number, wire, b)
	if n < 0 {
		return n
	}
	f.set[field.slot] = true
	for _, rival := range field.rivals {
		if f.set[rival.slot] {
			rival.forget(f)
		}
	}
	if field.list >= 0 {
		r.item(field, &f.items[field.list], bits, text)
		return n
	}
	switch {
	case field.message != nil:
		r.message(field.message, f, text)
	case field.kind == protoreflect.StringKind && !utf8.Valid(text):
		r.fail(CodeProtobufInvalid, "field %d is not UTF-8", number)
	case want == protowire.BytesType || want == protowire.StartGroupType:
		f.texts[field.slot] = text
	default:
		f.bits[field.slot] = field.decoded(bits)
	}
	return n
}

// forget makes a field of a oneof, and what is within it, as it was before it came, because it may come again.
func (f *protoField) forget(in *protoFrame) {
	clear(in.set[f.slot:f.end])
	copy(in.bits[f.slot:f.end], f.home.bits[f.slot:f.end])
	if in.text {
		copy(in.texts[f.slot:f.end], f.home.texts[f.slot:f.end])
	}
	for i := f.lists[0]; i < f.lists[1]; i++ {
		in.items[i] = protoItems{}
	}
}

// consume reads a value.
func consume(number protowire.Number, wire protowire.Type, b []byte) (bits uint64, text []byte, n int) {
	switch wire {
	case protowire.VarintType:
		bits, n = protowire.ConsumeVarint(b)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(b)
		bits = uint64(v)
	case protowire.Fixed64Type:
		bits, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		text, n = protowire.ConsumeBytes(b)
	case protowire.StartGroupType:
		text, n = protowire.ConsumeGroup(number, b)
	}
	return bits, text, n
}

// decoded is a number as a frame holds it.
func (f *protoField) decoded(bits uint64) uint64 {
	switch f.kind {
	case protoreflect.BoolKind:
		return min(bits, 1)
	case protoreflect.Int32Kind, protoreflect.EnumKind, protoreflect.Sfixed32Kind:
		return uint64(int64(int32(bits)))
	case protoreflect.Sint32Kind:
		return uint64(int64(int32(protowire.DecodeZigZag(bits & math.MaxUint32))))
	case protoreflect.Sint64Kind:
		return uint64(protowire.DecodeZigZag(bits))
	case protoreflect.Uint32Kind:
		return uint64(uint32(bits))
	}
	return bits
}

// What an element takes at most, in the frame and in its column, while both grow.
const (
	numberItemBytes = 40
	textItemBytes   = 104
)

// item appends an element of a repeated field.
func (r *protoReader) item(field *protoField, items *protoItems, bits uint64, text []byte) {
	switch {
	case field.frame != nil:
		if r.spend(field.frame.bytes()) {
			element := field.frame.empty(&protoFrame{})
			items.frames = append(items.frames, element)
			r.message(field.message, element, text)
		}
	case field.wire() == protowire.BytesType:
		if r.spend(textItemBytes) {
			items.texts = append(items.texts, text)
		}
		if field.kind == protoreflect.StringKind && !utf8.Valid(text) {
			r.fail(CodeProtobufInvalid, "a string of a list is not UTF-8")
		}
	case r.spend(numberItemBytes):
		items.bits = append(items.bits, field.decoded(bits))
	}
}

// packed reads elements that lie next to each other.
func (r *protoReader) packed(field *protoField, f *protoFrame, wire protowire.Type, b []byte) int {
	text, size := protowire.ConsumeBytes(b)
	if size < 0 {
		return size
	}
	f.set[field.slot] = true
	items := &f.items[field.list]
	for len(text) > 0 {
		bits, _, n := consume(0, wire, text)
		if n < 0 {
			return n
		}
		if !r.spend(numberItemBytes) {
			return 0
		}
		text = text[n:]
		items.bits = append(items.bits, field.decoded(bits))
	}
	return size
}
