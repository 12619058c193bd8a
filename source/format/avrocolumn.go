package format

import (
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// readColumns reads a row of any kind.
func (p *avroPlan) readColumns(r *avroReader) arrow.Record {
	cols := newRowColumns(p.shapes)
	if !r.spend(rowBytes * int64(1+len(p.columns))) {
		return nil
	}
	r.value(p.root, cols)
	if r.err != nil {
		return nil
	}
	schema, arrays := p.schema, make([]arrow.Array, len(p.columns))
	var lengths []int32
	for i, s := range p.columns {
		if s.numbers() && cols[s.place].nulls == 0 && cols[s.children[0].place].n > 0 {
			if lengths == nil {
				lengths = make([]int32, len(p.columns))
			}
			lengths[i] = int32(cols[s.children[0].place].n)
		}
	}
	if lengths != nil {
		schema = p.sizedSchema(lengths)
	}
	for i, s := range p.columns {
		if lengths != nil && lengths[i] > 0 {
			items := s.children[0].array(cols)
			arrays[i] = array.MakeFromData(array.NewData(schema.Field(i).Type, 1, []*memory.Buffer{nil}, []arrow.ArrayData{items}, 0, 0))
			continue
		}
		arrays[i] = array.MakeFromData(s.array(cols))
	}
	return array.NewRecord(schema, arrays, 1)
}

// value reads a value into the column of its shape.
func (r *avroReader) value(s *avroShape, cols []rowColumn) {
	if s.null >= 0 && r.branch(2) == s.null {
		r.absent(s, cols)
		return
	}
	if r.err != nil || !r.spend(rowValueBytes) {
		return
	}
	c, n := &cols[s.place], s.node
	c.mark(true)
	switch n.kind {
	case avroBoolean:
		c.setBit(r.boolean())
	case avroInt, avroLong, avroFloat, avroDouble:
		c.data = appendNumber(c.data, r.number(n), bytesOf(s.typ))
	case avroString:
		r.append(c, r.text())
	case avroEnum:
		r.append(c, []byte(n.symbols[r.branch(len(n.symbols))]))
	case avroBytes, avroFixed:
		r.binary(s, c)
	case avroRecord:
		for i, child := range s.children {
			if child == nil {
				r.pass(s, i)
			} else {
				r.value(child, cols)
			}
			if r.err != nil {
				return
			}
		}
	case avroArray, avroMap:
		r.items(s, cols)
	case avroUnion:
		r.choice(s, c, cols)
	}
}

func (r *avroReader) append(c *rowColumn, text []byte) {
	if r.spend(int64(len(text))) {
		c.data = append(c.data, text...)
		c.offset(len(c.data))
	}
}

func (r *avroReader) binary(s *avroShape, c *rowColumn) {
	var v []byte
	if s.node.kind == avroFixed {
		v = r.take(s.node.size)
	} else {
		v = r.bytes()
	}
	if r.err != nil {
		return
	}
	switch t := s.typ.(type) {
	case *arrow.Decimal128Type:
		c.data = r.decimal(c.data, v, 16)
	case *arrow.Decimal256Type:
		c.data = r.decimal(c.data, v, 32)
	case *arrow.FixedSizeBinaryType:
		if r.spend(int64(t.ByteWidth)) {
			c.data = append(c.data, v...)
		}
	default:
		r.append(c, v)
	}
}

// decimal appends an integer in two's complement, which Avro writes from its highest byte and Arrow from its lowest.
func (r *avroReader) decimal(dst, v []byte, width int) []byte {
	sign := byte(0)
	if len(v) > 0 && v[0] >= 0x80 {
		sign = 0xff
	}
	for len(v) > width && v[0] == sign && (v[1] >= 0x80) == (sign != 0) {
		v = v[1:]
	}
	if len(v) > width {
		r.fail(CodeAvroInvalid, "a decimal has %d bytes, and its precision allows for %d", len(v), width)
		return dst
	}
	for i := range width {
		if i < len(v) {
			dst = append(dst, v[len(v)-1-i])
		} else {
			dst = append(dst, sign)
		}
	}
	return dst
}

// items reads the items of an array, or the entries of a map.
func (r *avroReader) items(s *avroShape, cols []rowColumn) {
	items := s.children[len(s.children)-1]
	least := s.node.items.least + len(s.children) - 1 // a key has at least a byte
	for {
		count, size := r.block(least)
		if count == 0 {
			break
		}
		before := len(r.b)
		for range count {
			if s.node.kind == avroMap {
				r.value(s.children[0], cols)
			}
			r.value(items, cols)
			if r.err != nil {
				return
			}
		}
		r.counted(size, before)
	}
	cols[s.place].offset(cols[items.place].n)
}

// choice reads a value of a union.
func (r *avroReader) choice(s *avroShape, c *rowColumn, cols []rowColumn) {
	if s.typ.ID() != arrow.DENSE_UNION {
		bits, null := r.anyNumber(s.node)
		if null {
			c.n--
			c.mark(false)
		}
		c.data = appendNumber(c.data, bits, 8)
		return
	}
	i := r.branch(len(s.children))
	c.data = append(c.data, byte(i))
	c.offsets = append(c.offsets, int32(cols[s.children[i].place].n))
	r.value(s.children[i], cols)
}

// absent adds a null, to what is within too.
func (r *avroReader) absent(s *avroShape, cols []rowColumn) {
	if !r.spend(rowValueBytes) {
		return
	}
	c := &cols[s.place]
	c.mark(false)
	switch {
	case s.typ != nil && s.typ.ID() == arrow.DENSE_UNION:
		c.data = append(c.data, 0)
		c.offsets = append(c.offsets, int32(cols[s.children[0].place].n))
		r.absent(s.children[0], cols)
	case s.node.kind == avroRecord:
		for _, child := range s.children {
			if child != nil {
				r.absent(child, cols)
			}
		}
	case s.node.kind == avroArray || s.node.kind == avroMap:
		c.offset(cols[s.children[len(s.children)-1].place].n)
	case s.typ.ID() == arrow.BOOL:
		c.setBit(false)
	case s.typ.ID() == arrow.STRING || s.typ.ID() == arrow.BINARY:
		c.offset(len(c.data))
	case s.typ.ID() != arrow.NULL:
		for range bytesOf(s.typ) {
			c.data = append(c.data, 0)
		}
	}
}

// array makes the array of a shape.
func (s *avroShape) array(cols []rowColumn) arrow.ArrayData {
	return cols[s.place].array(s.typ, s.within(cols))
}

// within makes the arrays of what is within a shape.
func (s *avroShape) within(cols []rowColumn) (all []arrow.ArrayData) {
	for _, child := range s.children {
		if child != nil {
			all = append(all, child.array(cols))
		}
	}
	return all
}
