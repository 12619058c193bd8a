package format

import (
	"encoding/binary"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/flatipc"
)

// rowColumn is what was read of a column, or of a part of one, while a row is read value by value.
type rowColumn struct {
	n       int    // number of values, nulls included
	nulls   int    // number of nulls
	bits    []byte // validity; nil: there is no null
	data    []byte // values of fixed width, bits of booleans, text, or the branches of a union
	offsets []int32
}

// rowValueBytes is what a value takes in addition to its bytes, at most, while buffers grow.
const rowValueBytes = 32

// newRowColumns returns n columns, each with room for its first value, which for most is the only one.
func newRowColumns(n int) []rowColumn {
	const room = 8
	columns, slab := make([]rowColumn, n), make([]byte, room*n)
	for i := range columns {
		columns[i].data = slab[room*i : room*i : room*(i+1)]
	}
	return columns
}

// mark counts a value, and notes whether it is valid. A value that was counted last may be counted again as a null.
func (c *rowColumn) mark(valid bool) {
	i := c.n
	c.n++
	if valid && c.bits == nil {
		return
	}
	for len(c.bits)*8 <= i {
		c.bits = append(c.bits, 0)
	}
	if c.nulls == 0 && !valid {
		for k := range i {
			c.bits[k/8] |= 1 << (k % 8)
		}
	}
	if valid {
		c.bits[i/8] |= 1 << (i % 8)
	} else {
		c.bits[i/8] &^= 1 << (i % 8)
		c.nulls++
	}
}

// setBit stores the value that was counted last, of a column of booleans.
func (c *rowColumn) setBit(v bool) {
	i := c.n - 1
	for len(c.data)*8 <= i {
		c.data = append(c.data, 0)
	}
	if v {
		c.data[i/8] |= 1 << (i % 8)
	}
}

// offset notes where a text or a list ends.
func (c *rowColumn) offset(end int) {
	if c.offsets == nil {
		c.offsets = append(c.offsets, 0)
	}
	c.offsets = append(c.offsets, int32(end))
}

// put appends a single value of type t: a number or boolean by its bits, or a text.
func (c *rowColumn) put(t arrow.DataType, bits uint64, text []byte) {
	c.mark(true)
	switch t.ID() {
	case arrow.STRING, arrow.BINARY:
		c.data = append(c.data, text...)
		c.offset(len(c.data))
	case arrow.BOOL:
		c.setBit(bits == 1)
	default:
		c.data = appendNumber(c.data, bits, bytesOf(t))
	}
}

// null appends a null to a column of single values of type t.
func (c *rowColumn) null(t arrow.DataType) {
	c.mark(false)
	switch t.ID() {
	case arrow.STRING, arrow.BINARY:
		c.offset(len(c.data))
	case arrow.BOOL:
		c.setBit(false)
	case arrow.NULL:
	default:
		c.data = append(c.data, make([]byte, bytesOf(t))...)
	}
}

// array makes an array of type t, of the arrays of what is within.
func (c *rowColumn) array(t arrow.DataType, within []arrow.ArrayData) arrow.ArrayData {
	valid := make([]*memory.Buffer, 1, 3)
	if c.bits != nil {
		valid[0] = memory.NewBufferBytes(c.bits)
	}
	switch t.ID() {
	case arrow.NULL:
		return array.NewData(t, c.n, []*memory.Buffer{nil}, nil, c.n, 0)
	case arrow.STRUCT:
		return array.NewData(t, c.n, valid, within, c.nulls, 0)
	case arrow.LIST:
		return array.NewData(t, c.n, append(valid, c.ends()), within, c.nulls, 0)
	case arrow.MAP:
		entries := array.NewData(t.(*arrow.MapType).Elem(), within[0].Len(), []*memory.Buffer{nil}, within, 0, 0)
		return array.NewData(t, c.n, append(valid, c.ends()), []arrow.ArrayData{entries}, c.nulls, 0)
	case arrow.DENSE_UNION:
		places := memory.NewBufferBytes(arrow.GetBytes(c.offsets))
		return array.NewData(t, c.n, []*memory.Buffer{nil, memory.NewBufferBytes(c.data), places}, within, 0, 0)
	case arrow.STRING, arrow.BINARY:
		return array.NewData(t, c.n, append(valid, c.ends(), memory.NewBufferBytes(c.data)), nil, c.nulls, 0)
	}
	return array.NewData(t, c.n, append(valid, memory.NewBufferBytes(c.data)), nil, c.nulls, 0)
}

// ends is the buffer of offsets, which has one even without values.
func (c *rowColumn) ends() *memory.Buffer {
	if c.offsets == nil {
		return memory.NewBufferBytes(make([]byte, 4))
	}
	return memory.NewBufferBytes(arrow.GetBytes(c.offsets))
}

// rowFlat is a row of numbers, and of lists of them, without a null. Arrays of its columns are made only when they are
// needed, because of a single row they cost more than all else.
type rowFlat struct {
	lazyRecord
	numbers []uint64  // of the columns that are numbers, in order, each from the beginning of its 8 bytes
	lists   []rowList // of the columns that are lists, in order
}

// rowList is the numbers of a list.
type rowList struct {
	data []byte
	n    int32
}

var _ flatipc.Record = (*rowFlat)(nil)

func newRowFlat(schema *arrow.Schema, numbers int) *rowFlat {
	f := &rowFlat{numbers: make([]uint64, numbers)}
	f.init(f, schema, 1)
	return f
}

// rowBytes is what the objects of a row take.
const rowBytes = 256

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

// Buffers appends the buffers of all columns to dst.
func (f *rowFlat) Buffers(dst [][]byte) [][]byte {
	slab, numbers, lists := arrow.GetBytes(f.numbers), 0, 0
	for i := range f.schema.NumFields() {
		switch t := f.schema.Field(i).Type; t.ID() {
		case arrow.FIXED_SIZE_LIST:
			dst = append(dst, nil, nil, f.lists[lists].data)
			lists++
		default:
			dst = append(dst, nil, slab[8*numbers:][:bytesOf(t)])
			numbers++
		}
	}
	return dst
}

// Buffer returns one of them.
func (f *rowFlat) Buffer(i int) []byte {
	if len(f.lists) > 0 {
		return f.Buffers(nil)[i]
	}
	if i%2 == 0 {
		return nil
	}
	return arrow.GetBytes(f.numbers)[8*(i/2):][:bytesOf(f.schema.Field(i/2).Type)]
}

func (f *rowFlat) record() arrow.Record {
	buffers := f.Buffers(nil)
	cols := make([]arrow.Array, f.schema.NumFields())
	lists := 0
	for i := range cols {
		t := f.schema.Field(i).Type
		n := flatipc.Count(t)
		data := []*memory.Buffer{nil, memory.NewBufferBytes(buffers[n-1])}
		buffers = buffers[n:]
		if list, ok := t.(*arrow.FixedSizeListType); ok {
			items := array.NewData(list.Elem(), int(f.lists[lists].n), data, nil, 0, 0)
			cols[i] = array.MakeFromData(array.NewData(t, 1, []*memory.Buffer{nil}, []arrow.ArrayData{items}, 0, 0))
			lists++
			continue
		}
		cols[i] = array.MakeFromData(array.NewData(t, 1, data, nil, 0, 0))
	}
	return array.NewRecord(f.schema, cols, 1)
}
