package format

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lca-stream/lca-stream/internal/rowrecord"
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

// read makes a record of a message, or leaves an error in the reader.
func (p *protoPlan) read(r *protoReader, body []byte) arrow.Record {
	if !r.spend(rowBytes + 8*int64(p.shapes)) {
		return nil
	}
	f, _ := p.pool.Get().(*protoFrame)
	if f == nil {
		f = &protoFrame{}
	}
	p.frame.empty(f)
	defer p.give(f)
	if r.message(p.root, f, body); r.err != nil {
		return nil
	}
	if p.flat {
		if rec := p.numbers(f); rec != nil {
			return rec
		}
	}
	return p.row(r, f)
}

// give takes a frame back. It lets go of the value.
func (p *protoPlan) give(f *protoFrame) {
	clear(f.texts)
	clear(f.items)
	p.pool.Put(f)
}

// numbers makes a record of numbers without a null; nil if there is one.
func (p *protoPlan) numbers(f *protoFrame) arrow.Record {
	row := newRowFlat(p.schema, len(p.columns))
	for i, s := range p.columns {
		if !s.present(f) {
			return nil
		}
		row.numbers[i] = f.bits[s.field.slot]
	}
	return row
}

// present reports whether a field that is not repeated has a value.
func (s *protoShape) present(f *protoFrame) bool {
	for _, slot := range s.above {
		if !f.set[slot] {
			return false
		}
	}
	return !s.nullable || f.set[s.field.slot]
}

// sized is the data of a list of numbers as a list of fixed size, as in JSON; nil: it is another column, empty or null.
func (s *protoShape) sized(cols []rowColumn, data arrow.ArrayData) arrow.ArrayData {
	if s.form != protoList || s.fields[0].form != protoScalar || !isProtoNumber(s.field.kind) {
		return nil
	}
	items := &cols[s.fields[0].place]
	if items.n == 0 || cols[s.place].nulls > 0 {
		return nil
	}
	return array.NewData(arrow.FixedSizeListOf(int32(items.n), s.fields[0].typ), 1, []*memory.Buffer{nil}, data.Children(), 0, 0)
}

// array makes the array of a shape. What stands for a value has none of its fields.
func (s *protoShape) array(cols []rowColumn) arrow.ArrayData {
	var within []arrow.ArrayData
	if s.form == protoStruct || s.form == protoList || s.form == protoMap {
		for _, field := range s.fields {
			within = append(within, field.array(cols))
		}
	}
	return cols[s.place].array(s.typ, within)
}

// withType is a schema with another type of field i.
func withType(schema *arrow.Schema, i int, t arrow.DataType) *arrow.Schema {
	fields := append([]arrow.Field(nil), schema.Fields()...)
	fields[i].Type = t
	return arrow.NewSchema(fields, nil)
}

// write appends the value of a field to the column of its shape.
func (r *protoReader) write(s *protoShape, f *protoFrame, cols []rowColumn) {
	if !r.spend(rowValueBytes) {
		return
	}
	if !s.present(f) {
		r.absent(s, cols)
		return
	}
	c := &cols[s.place]
	switch s.form {
	case protoStruct:
		c.mark(true)
		for _, field := range s.fields {
			r.write(field, f, cols)
		}
	case protoList, protoMap:
		c.mark(true)
		if s.form == protoMap {
			s.lastOfEachKey(&f.items[s.field.list])
		}
		r.items(s, &f.items[s.field.list], cols)
		c.offset(cols[s.fields[len(s.fields)-1].place].n)
	default:
		bits, text := r.value(s, f)
		r.scalar(s, bits, text, c)
	}
}

// lastOfEachKey leaves out the entries of a map whose key comes again: the last one counts.
func (s *protoShape) lastOfEachKey(items *protoItems) {
	if len(items.frames) < 2 {
		return
	}
	type key struct {
		bits uint64
		text string
	}
	slot, place := s.fields[0].field.slot, make(map[key]int, len(items.frames))
	kept := items.frames[:0]
	for _, entry := range items.frames {
		k := key{bits: entry.bits[slot]}
		if entry.text {
			k.text = string(entry.texts[slot])
		}
		if at, again := place[k]; again {
			kept[at] = entry
			continue
		}
		place[k] = len(kept)
		kept = append(kept, entry)
	}
	items.frames = kept
}

// mostSeconds is the longest google.protobuf.Duration; a Timestamp, of the years 1 to 9999, is less.
const mostSeconds = 315_576_000_000

// value is the single value of a field that is there. Of an enum it is the number.
func (r *protoReader) value(s *protoShape, f *protoFrame) (bits uint64, text []byte) {
	switch s.form {
	case protoWrapper:
		return r.value(s.fields[0], f)
	case protoTimestamp, protoDuration:
		seconds, nanos := int64(f.bits[s.fields[0].field.slot]), int64(f.bits[s.fields[1].field.slot])
		if seconds < -mostSeconds || seconds > mostSeconds || nanos <= -1e9 || nanos >= 1e9 {
			r.fail(CodeProtobufInvalid, "a time of field %q is beyond 10,000 years or has more than a second of nanoseconds", clip(s.name))
		}
		return uint64(seconds*1_000_000 + nanos/1000), nil
	case protoDecimal, protoDecimalText:
		x, ok := s.decimal(f)
		if !ok {
			r.fail(CodeProtobufInvalid, "a decimal of field %q is none", clip(s.name))
		}
		return math.Float64bits(x), nil
	}
	if s.field.wire() == protowire.BytesType {
		return 0, f.texts[s.field.slot]
	}
	return f.bits[s.field.slot], nil
}

// items appends the elements of a list or a map.
func (r *protoReader) items(s *protoShape, items *protoItems, cols []rowColumn) {
	for _, element := range items.frames {
		for _, field := range s.fields {
			r.write(field, element, cols)
		}
	}
	c := &cols[s.fields[0].place]
	for _, bits := range items.bits {
		r.scalar(s.fields[0], bits, nil, c)
	}
	for _, text := range items.texts {
		r.scalar(s.fields[0], 0, text, c)
	}
}

// scalar appends a single value.
func (r *protoReader) scalar(s *protoShape, bits uint64, text []byte, c *rowColumn) {
	if s.form == protoEnum {
		text = []byte(s.enumName(bits))
	}
	if r.spend(int64(len(text))) {
		c.put(s.typ, bits, text)
	}
}

// enumName is the name of a value, or its number where the schema has no name.
func (s *protoShape) enumName(bits uint64) string {
	n := protoreflect.EnumNumber(int32(bits))
	if v := s.enum.ByNumber(n); v != nil {
		return string(v.Name())
	}
	return strconv.Itoa(int(n))
}

// absent appends a null, to what is within too.
func (r *protoReader) absent(s *protoShape, cols []rowColumn) {
	if !r.spend(rowValueBytes) {
		return
	}
	c := &cols[s.place]
	switch s.form {
	case protoStruct:
		c.mark(false)
		for _, field := range s.fields {
			r.absent(field, cols)
		}
	case protoList, protoMap:
		c.mark(false)
		c.offset(cols[s.fields[len(s.fields)-1].place].n)
	default:
		c.null(s.typ)
	}
}

// mostScale bounds the scale of a decimal; beyond it numbers are 0 or infinite.
const mostScale = 1 << 16

// decimal is the nearest float64 of a decimal.
func (s *protoShape) decimal(f *protoFrame) (x float64, ok bool) {
	text := f.texts[s.fields[0].field.slot]
	if s.form == protoDecimalText {
		x, err := strconv.ParseFloat(string(text), 64)
		return x, err == nil || errors.Is(err, strconv.ErrRange) // beyond float64 is an infinity
	}
	if len(text) > 64 {
		return 0, false
	}
	scale := int64(int32(f.bits[s.fields[2].field.slot]))
	n := new(big.Int).SetBytes(text)
	if len(text) > 0 && text[0] >= 0x80 { // two's complement
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(text))))
	}
	x, _ = strconv.ParseFloat(n.String()+"e"+strconv.FormatInt(max(min(-scale, mostScale), -mostScale), 10), 64)
	return x, true
}

// protoRow is a row with columns of any kind. Those that hold a single value are made into arrays only when these are needed.
type protoRow struct {
	lazyRecord
	values []rowrecord.Value // by column, of those that show it
	nested []arrow.Array     // by column, of the others
}

var _ rowrecord.Record = (*protoRow)(nil)

// row makes a record of a message of any kind, or leaves an error in the reader.
func (p *protoPlan) row(r *protoReader, f *protoFrame) arrow.Record {
	row := &protoRow{values: make([]rowrecord.Value, len(p.columns))}
	row.init(row, p.schema, 1)
	var cols []rowColumn
	if p.nested {
		cols, row.nested = newRowColumns(p.shapes), make([]arrow.Array, len(p.columns))
	}
	for i, s := range p.columns {
		if rowrecord.Shows(s.typ) {
			row.values[i] = r.single(s, f)
			continue
		}
		r.write(s, f, cols)
	}
	if r.err != nil {
		return nil
	}
	for i, s := range p.columns {
		if rowrecord.Shows(s.typ) {
			continue
		}
		data := s.array(cols)
		if sized := s.sized(cols, data); sized != nil {
			data, row.schema = sized, withType(row.schema, i, sized.DataType())
		}
		row.nested[i] = array.MakeFromData(data)
	}
	return row
}

// single returns the value of a shape that has a single one.
func (r *protoReader) single(s *protoShape, f *protoFrame) (v rowrecord.Value) {
	if !r.spend(rowValueBytes) || !s.present(f) {
		return v
	}
	bits, text := r.value(s, f)
	if s.form == protoEnum {
		text = []byte(s.enumName(bits))
	}
	r.spend(int64(len(text)))
	return rowrecord.Value{Bits: bits, Text: text, Valid: true}
}

// Value returns the value of a column that holds a single one.
func (r *protoRow) Value(i int) rowrecord.Value { return r.values[i] }

func (r *protoRow) record() arrow.Record {
	arrays := make([]arrow.Array, len(r.values))
	for i := range arrays {
		if t := r.schema.Field(i).Type; rowrecord.Shows(t) {
			arrays[i] = array.MakeFromData(columnOf(t, r.values[i]))
		} else {
			arrays[i] = r.nested[i]
		}
	}
	return array.NewRecord(r.schema, arrays, 1)
}

func columnOf(t arrow.DataType, v rowrecord.Value) arrow.ArrayData {
	var c rowColumn
	if v.Valid {
		c.put(t, v.Bits, v.Text)
	} else {
		c.null(t)
	}
	return c.array(t, nil)
}

// Column returns an array, which is made of all columns at once if this one has to be made.
func (r *protoRow) Column(i int) arrow.Array {
	if r.nested != nil && r.nested[i] != nil {
		return r.nested[i]
	}
	return r.lazyRecord.Column(i)
}
