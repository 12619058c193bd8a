package format

import (
	"errors"
	"math"
	"math/big"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

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
