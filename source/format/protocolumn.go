package format

import (
	"encoding/binary"
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
	cols := newRowColumns(p.shapes)
	for _, s := range p.columns {
		r.write(s, f, cols)
	}
	if r.err != nil {
		return nil
	}
	return p.record(cols)
}

// give takes a frame back. It lets go of the value.
func (p *protoPlan) give(f *protoFrame) {
	clear(f.texts)
	clear(f.items)
	p.pool.Put(f)
}

// numbers makes a record of numbers without a null; nil if there is one.
func (p *protoPlan) numbers(f *protoFrame) arrow.Record {
	row := &rowFlat{schema: p.schema, numbers: make([]uint64, len(p.columns))}
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

// record makes a record of columns of one value. Lists of numbers have a fixed size, as in JSON.
func (p *protoPlan) record(cols []rowColumn) arrow.Record {
	schema, arrays := p.schema, make([]arrow.Array, len(p.columns))
	for i, s := range p.columns {
		data := s.array(cols)
		if s.form == protoList && s.fields[0].form == protoScalar && isProtoNumber(s.field.kind) {
			if items := &cols[s.fields[0].place]; items.n > 0 && cols[s.place].nulls == 0 {
				t := arrow.FixedSizeListOf(int32(items.n), s.fields[0].typ)
				data = array.NewData(t, 1, []*memory.Buffer{nil}, data.Children(), 0, 0)
				schema = withType(schema, i, t)
			}
		}
		arrays[i] = array.MakeFromData(data)
	}
	return array.NewRecord(schema, arrays, 1)
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
		r.items(s, &f.items[s.field.list], cols)
		c.offset(cols[s.fields[len(s.fields)-1].place].n)
	case protoWrapper:
		inner := *s.fields[0] // the value has the column of the wrapper
		inner.place, inner.nullable, inner.above = s.place, false, nil
		r.write(&inner, f, cols)
	case protoTimestamp, protoDuration:
		c.mark(true)
		seconds, nanos := int64(f.bits[s.fields[0].field.slot]), int64(f.bits[s.fields[1].field.slot])
		c.data = binary.LittleEndian.AppendUint64(c.data, uint64(seconds*1_000_000+nanos/1000))
	case protoDecimal, protoDecimalText:
		x, ok := s.decimal(f)
		if !ok {
			r.fail(CodeProtobufInvalid, "a decimal of field %q is none", clip(s.name))
		}
		c.mark(true)
		c.data = binary.LittleEndian.AppendUint64(c.data, math.Float64bits(x))
	default:
		var text []byte
		if s.field.wire() == protowire.BytesType {
			text = f.texts[s.field.slot]
		}
		r.scalar(s, f.bits[s.field.slot], text, c)
	}
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

// scalar appends a value that is no message.
func (r *protoReader) scalar(s *protoShape, bits uint64, text []byte, c *rowColumn) {
	c.mark(true)
	switch {
	case s.form == protoEnum:
		r.append(c, s.enumName(protoreflect.EnumNumber(int32(bits))))
	case s.typ.ID() == arrow.STRING || s.typ.ID() == arrow.BINARY:
		r.append(c, string(text))
	case s.typ.ID() == arrow.BOOL:
		c.setBit(bits == 1)
	default:
		c.data = appendNumber(c.data, bits, bytesOf(s.typ))
	}
}

// enumName is the name of a value, or its number where the schema has no name.
func (s *protoShape) enumName(n protoreflect.EnumNumber) string {
	if v := s.enum.ByNumber(n); v != nil {
		return string(v.Name())
	}
	return strconv.Itoa(int(n))
}

func (r *protoReader) append(c *rowColumn, text string) {
	if r.spend(int64(len(text))) {
		c.data = append(c.data, text...)
		c.offset(len(c.data))
	}
}

// absent appends a null, to what is within too.
func (r *protoReader) absent(s *protoShape, cols []rowColumn) {
	if !r.spend(rowValueBytes) {
		return
	}
	c := &cols[s.place]
	c.mark(false)
	switch {
	case s.form == protoStruct:
		for _, field := range s.fields {
			r.absent(field, cols)
		}
	case s.form == protoList || s.form == protoMap:
		c.offset(cols[s.fields[len(s.fields)-1].place].n)
	case s.typ.ID() == arrow.BOOL:
		c.setBit(false)
	case s.typ.ID() == arrow.STRING || s.typ.ID() == arrow.BINARY:
		c.offset(len(c.data))
	default:
		c.data = append(c.data, make([]byte, bytesOf(s.typ))...)
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
