package format

import (
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// avroReader reads the encoding of Avro (section "Binary Encoding" of its specification). After an error it reads
// nothing but zeros.
type avroReader struct {
	b     []byte
	left  int64 // what may still be decoded to, in bytes
	spent int64
	depth int
	lost  int // values that are left out
	err   error
}

// avroDepth bounds the nesting of values whose type contains itself.
const avroDepth = 64

func (r *avroReader) fail(code, text string, args ...any) {
	if r.err == nil {
		r.err = errorf(code, text, args...)
	}
	r.b = nil
}

// spend takes room for what is decoded.
func (r *avroReader) spend(n int64) bool {
	r.spent += n
	if r.left -= n; r.left < 0 {
		r.fail(CodeAvroTooLarge, "the value decodes to more than %d bytes", r.spent+r.left)
		return false
	}
	return true
}

// long reads an integer in zigzag encoding.
func (r *avroReader) long() int64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return int64(v>>1) ^ -int64(v&1)
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(CodeAvroInvalid, "an integer is cut off, or has more than 64 bits")
		return 0
	}
	r.b = r.b[n:]
	return int64(v>>1) ^ -int64(v&1)
}

// int reads an integer of 32 bits.
func (r *avroReader) int() int32 {
	v := r.long()
	if v != int64(int32(v)) {
		r.fail(CodeAvroInvalid, "%d does not fit into an int", v)
	}
	return int32(v)
}

// take returns the next n bytes of the body.
func (r *avroReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail(CodeAvroInvalid, "%d bytes are announced, and %d are there", n, len(r.b))
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// bytes reads a length and as many bytes.
func (r *avroReader) bytes() []byte {
	n := r.long()
	if n < 0 || n > int64(len(r.b)) {
		r.fail(CodeAvroInvalid, "%d bytes are announced, and %d are there", n, len(r.b))
		return nil
	}
	return r.take(int(n))
}

// text reads a string.
func (r *avroReader) text() []byte {
	v := r.bytes()
	if !utf8.Valid(v) {
		r.fail(CodeAvroInvalid, "a string is not UTF-8")
	}
	return v
}

func (r *avroReader) boolean() bool {
	v := r.take(1)
	if r.err == nil && v[0] > 1 {
		r.fail(CodeAvroInvalid, "a boolean is %d", v[0])
	}
	return r.err == nil && v[0] == 1
}

// branch reads which branch of a union follows, and of an enum which symbol.
func (r *avroReader) branch(of int) int {
	i := r.long()
	if i < 0 || i >= int64(of) {
		r.fail(CodeAvroInvalid, "choice %d of %d", i, of)
		return 0
	}
	return int(i)
}

// block reads the head of a block of an array or map: how many items follow, 0 at the end. size is how many bytes they
// take, where that is written; −1 elsewhere. Items that the bytes cannot hold are refused.
func (r *avroReader) block(least int) (count int, size int) {
	n := r.long()
	if size = -1; n < 0 {
		bytes := r.long()
		if n == math.MinInt64 || bytes < 0 || bytes > int64(len(r.b)) {
			r.fail(CodeAvroInvalid, "a block of %d items in %d bytes, and %d are there", n, bytes, len(r.b))
			return 0, 0
		}
		n, size = -n, int(bytes)
	}
	if least > 0 && n > int64(len(r.b)/least) {
		r.fail(CodeAvroInvalid, "%d items are announced, and %d bytes are there", n, len(r.b))
		return 0, 0
	}
	if n > math.MaxInt32 {
		r.fail(CodeAvroTooLarge, "an array of %d items", n)
		return 0, 0
	}
	return int(n), size
}

// counted refuses a block whose items took other bytes than its head says. before is what was left behind the head.
func (r *avroReader) counted(size, before int) {
	if took := before - len(r.b); size >= 0 && r.err == nil && took != size {
		r.fail(CodeAvroInvalid, "the items of a block took %d bytes, and %d are announced", took, size)
	}
}

// skip passes over a value.
func (r *avroReader) skip(n *avroNode) {
	if n.exact >= 0 {
		r.take(n.exact)
		return
	}
	switch n.kind {
	case avroInt, avroLong, avroEnum:
		r.long()
	case avroBytes, avroString:
		r.bytes()
	case avroUnion:
		r.deeper(n.branches[r.branch(len(n.branches))])
	case avroRecord:
		for _, f := range n.fields {
			r.deeper(f)
		}
	case avroArray:
		r.skipItems(n.items, n.items.least, false)
	case avroMap:
		r.skipItems(n.items, n.items.least+1, true)
	}
}

// deeper is skip with a bound on nesting: types may contain themselves.
func (r *avroReader) deeper(n *avroNode) {
	if r.err != nil {
		return
	}
	if r.depth++; r.depth > avroDepth {
		r.fail(CodeAvroTooLarge, "nested deeper than %d", avroDepth)
		return
	}
	r.skip(n)
	r.depth--
}

// pass skips a field of a record, and counts what is left out.
func (r *avroReader) pass(s *avroShape, field int) {
	before := len(r.b)
	if r.deeper(s.node.fields[field]); s.left && before-len(r.b) > 1 { // null and an empty list are one byte
		r.lost++
	}
}

func (r *avroReader) skipItems(items *avroNode, least int, keys bool) {
	for {
		count, size := r.block(least)
		switch {
		case count == 0:
			return
		case size >= 0:
			r.take(size)
			continue
		case least == 0:
			continue // items without bytes, however many
		}
		for range count {
			if r.err != nil {
				return
			}
			if keys {
				r.bytes()
			}
			r.deeper(items)
		}
	}
}

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
	switch {
	case s.typ != nil && s.typ.ID() == arrow.DENSE_UNION:
		c.mark(false)
		c.data = append(c.data, 0)
		c.offsets = append(c.offsets, int32(cols[s.children[0].place].n))
		r.absent(s.children[0], cols)
	case s.node.kind == avroRecord:
		c.mark(false)
		for _, child := range s.children {
			if child != nil {
				r.absent(child, cols)
			}
		}
	case s.node.kind == avroArray || s.node.kind == avroMap:
		c.mark(false)
		c.offset(cols[s.children[len(s.children)-1].place].n)
	default:
		c.null(s.typ)
	}
}

func (s *avroShape) array(cols []rowColumn) arrow.ArrayData {
	return cols[s.place].array(s.typ, s.within(cols))
}

func (s *avroShape) within(cols []rowColumn) (all []arrow.ArrayData) {
	for _, child := range s.children {
		if child != nil {
			all = append(all, child.array(cols))
		}
	}
	return all
}

// readFlat reads a row if nothing of it is null and no list is empty.
func (p *avroPlan) readFlat(r *avroReader) (arrow.Record, bool) {
	f := newRowFlat(p.schema, p.numbers)
	if p.lists > 0 {
		f.lists = make([]rowList, p.lists)
	}
	if !r.spend(rowBytes+8*int64(p.numbers)) || !f.fill(r, p.root) {
		return nil, r.err != nil
	}
	if p.lists > 0 {
		lengths := make([]int32, len(p.columns))
		for i, c := range p.columns {
			if c.numbers() {
				lengths[i] = f.lists[c.slot].n
			}
		}
		f.schema = p.sizedSchema(lengths)
	}
	return f, true
}

// fill reads the fields of a record; false: one is null, an empty list, or wrong.
func (f *rowFlat) fill(r *avroReader, s *avroShape) bool {
	for i, c := range s.children {
		switch {
		case c == nil:
			r.pass(s, i)
		case c.number():
			bits, null := r.scalar(c)
			if f.numbers[c.slot] = bits; null {
				return false
			}
		case c.null >= 0 && r.branch(2) == c.null:
			return false
		case c.node.kind == avroRecord && !f.fill(r, c):
			return false
		case c.node.kind == avroArray && !f.lists[c.slot].fill(r, c):
			return false
		}
		if r.err != nil {
			return false
		}
	}
	return true
}

// scalar reads a number that may be null, or of a union.
func (r *avroReader) scalar(s *avroShape) (bits uint64, null bool) {
	switch {
	case s.null >= 0 && r.branch(2) == s.null:
		return 0, true
	case s.node.kind == avroUnion:
		return r.anyNumber(s.node)
	}
	return r.number(s.node), false
}

// fill reads an array of numbers.
func (l *rowList) fill(r *avroReader, s *avroShape) bool {
	items := s.children[0]
	width := bytesOf(items.typ)
	for {
		count, size := r.block(s.node.items.least)
		if count == 0 {
			return l.n > 0 && r.err == nil
		}
		before := len(r.b)
		if !r.spend(int64(count) * int64(width)) {
			return false
		}
		l.data = slices.Grow(l.data, count*width)
		l.n += int32(count)
		if items.null < 0 && items.node.exact == width { // they lie as in Arrow
			l.data = append(l.data, r.take(count*width)...)
			r.counted(size, before)
			continue
		}
		for range count {
			bits, null := r.scalar(items)
			if null || r.err != nil {
				return false
			}
			l.data = appendNumber(l.data, bits, width)
		}
		r.counted(size, before)
	}
}

// number reads a number, whose bytes are the first of the result.
func (r *avroReader) number(n *avroNode) uint64 {
	switch n.kind {
	case avroDouble:
		if b := r.take(8); b != nil {
			return binary.LittleEndian.Uint64(b)
		}
		return 0
	case avroFloat:
		if b := r.take(4); b != nil {
			return uint64(binary.LittleEndian.Uint32(b))
		}
		return 0
	case avroInt:
		return uint64(uint32(r.int()))
	case avroLong:
		return uint64(r.long())
	}
	return 0
}

// anyNumber reads a number of a union of several kinds, as a float64.
func (r *avroReader) anyNumber(n *avroNode) (bits uint64, null bool) {
	b := n.branches[r.branch(len(n.branches))]
	bits = r.number(b)
	switch b.kind {
	case avroNull:
		return 0, true
	case avroFloat:
		bits = math.Float64bits(float64(math.Float32frombits(uint32(bits))))
	case avroInt:
		bits = math.Float64bits(float64(int32(bits)))
	case avroLong:
		bits = math.Float64bits(float64(int64(bits)))
	}
	return bits, false
}

// sizedSchema is the plan's schema with lists of the given lengths. It is that of the last row, if that had the same.
func (p *avroPlan) sizedSchema(lengths []int32) *arrow.Schema {
	if last := p.sized.Load(); last != nil && slices.Equal(last.lengths, lengths) {
		return last.schema
	}
	fields := p.schema.Fields()
	for i, n := range lengths {
		if n > 0 {
			fields[i].Type = arrow.FixedSizeListOf(n, p.columns[i].children[0].typ)
		}
	}
	sized := &avroSized{lengths, arrow.NewSchema(fields, nil)}
	p.sized.Store(sized)
	return sized.schema
}
