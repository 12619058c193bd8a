package format

import (
	"encoding/binary"
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/flatipc"
)

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
