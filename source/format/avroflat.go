package format

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/flatipc"
)

// avroFlat is a row of numbers, and of lists of them, without a null. Arrays of its columns are made only when they are
// needed, because of a single row they cost more than all else.
type avroFlat struct {
	plan    *avroPlan
	schema  *arrow.Schema
	numbers []uint64   // of the columns that are numbers, each from the beginning of its 8 bytes
	lists   []avroList // of the columns that are lists
	once    sync.Once
	whole   arrow.Record
}

// avroList is the numbers of a list.
type avroList struct {
	data []byte
	n    int32
}

var _ flatipc.Record = (*avroFlat)(nil)

// readFlat reads a row if nothing of it is null and no list is empty.
func (p *avroPlan) readFlat(r *avroReader) (arrow.Record, bool) {
	f := &avroFlat{plan: p, schema: p.schema, numbers: make([]uint64, p.numbers)}
	if p.lists > 0 {
		f.lists = make([]avroList, p.lists)
	}
	if !r.spend(avroRowBytes+8*int64(p.numbers)) || !f.fill(r, p.root) {
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

// avroRowBytes is what the objects of a row take.
const avroRowBytes = 256

// fill reads the fields of a record; false: one is null, an empty list, or wrong.
func (f *avroFlat) fill(r *avroReader, s *avroShape) bool {
	for i, c := range s.children {
		switch {
		case c == nil:
			r.deeper(s.node.fields[i])
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
func (l *avroList) fill(r *avroReader, s *avroShape) bool {
	items := s.children[0]
	width := bytesOf(items.typ)
	for {
		count, _ := r.block(s.node.items.least)
		if count == 0 {
			return l.n > 0 && r.err == nil
		}
		if !r.spend(int64(count) * int64(width)) {
			return false
		}
		l.data = slices.Grow(l.data, count*width)
		l.n += int32(count)
		if items.null < 0 && items.node.exact == width { // they lie as in Arrow
			l.data = append(l.data, r.take(count*width)...)
			continue
		}
		for range count {
			bits, null := r.scalar(items)
			if null || r.err != nil {
				return false
			}
			l.data = appendNumber(l.data, bits, width)
		}
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

func appendNumber(dst []byte, bits uint64, width int) []byte {
	if width == 4 {
		return binary.LittleEndian.AppendUint32(dst, uint32(bits))
	}
	return binary.LittleEndian.AppendUint64(dst, bits)
}

// bytesOf is the width of a value of fixed width, in bytes.
func bytesOf(t arrow.DataType) int {
	return t.(arrow.FixedWidthDataType).BitWidth() / 8
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

// Buffers appends the buffers of all columns to dst.
func (f *avroFlat) Buffers(dst [][]byte) [][]byte {
	slab := arrow.GetBytes(f.numbers)
	for _, c := range f.plan.columns {
		if c.numbers() {
			dst = append(dst, nil, nil, f.lists[c.slot].data)
		} else {
			dst = append(dst, nil, slab[8*c.slot:][:bytesOf(c.typ)])
		}
	}
	return dst
}

// Buffer returns one of them.
func (f *avroFlat) Buffer(i int) []byte {
	if f.plan.lists > 0 {
		return f.Buffers(nil)[i]
	}
	if i%2 == 0 {
		return nil
	}
	c := f.plan.columns[i/2]
	return arrow.GetBytes(f.numbers)[8*c.slot:][:bytesOf(c.typ)]
}

func (f *avroFlat) record() arrow.Record {
	f.once.Do(func() {
		slab := arrow.GetBytes(f.numbers)
		cols := make([]arrow.Array, len(f.plan.columns))
		for i, c := range f.plan.columns {
			if c.numbers() {
				l := f.lists[c.slot]
				items := array.NewData(c.children[0].typ, int(l.n), []*memory.Buffer{nil, memory.NewBufferBytes(l.data)}, nil, 0, 0)
				cols[i] = array.MakeFromData(array.NewData(f.schema.Field(i).Type, 1, []*memory.Buffer{nil}, []arrow.ArrayData{items}, 0, 0))
				continue
			}
			cols[i] = array.MakeFromData(array.NewData(c.typ, 1, []*memory.Buffer{nil, memory.NewBufferBytes(slab[8*c.slot:][:bytesOf(c.typ)])}, nil, 0, 0))
		}
		f.whole = array.NewRecord(f.schema, cols, 1)
	})
	return f.whole
}

// Schema, NumRows, NumCols and ColumnName need no column.
func (f *avroFlat) Schema() *arrow.Schema   { return f.schema }
func (f *avroFlat) NumRows() int64          { return 1 }
func (f *avroFlat) NumCols() int64          { return int64(f.schema.NumFields()) }
func (f *avroFlat) ColumnName(i int) string { return f.schema.Field(i).Name }

// Retain and Release do nothing: the numbers belong to the collector.
func (f *avroFlat) Retain()  {}
func (f *avroFlat) Release() {}

// Columns and the others make the arrays.
func (f *avroFlat) Columns() []arrow.Array           { return f.record().Columns() }
func (f *avroFlat) Column(i int) arrow.Array         { return f.record().Column(i) }
func (f *avroFlat) MarshalJSON() ([]byte, error)     { return f.record().MarshalJSON() }
func (f *avroFlat) NewSlice(i, j int64) arrow.Record { return f.record().NewSlice(i, j) }

// SetColumn returns a record with another column i.
func (f *avroFlat) SetColumn(i int, col arrow.Array) (arrow.Record, error) {
	return f.record().SetColumn(i, col)
}
