package format

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
)

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
