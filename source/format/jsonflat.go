package format

import (
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/flatipc"
)

// jsonFlat is a record of numbers without a null, and of lists of as many of them in each row. Arrays of its columns are
// made only when they are needed: the rows are read from the numbers, and of a small message the arrays would cost
// more than all else.
type jsonFlat struct {
	lazyRecord
	numbers []float64 // column by column
}

var _ flatipc.Record = (*jsonFlat)(nil)

func newJSONFlat(f *jsonFlat, schema *arrow.Schema, rows int, numbers []float64) *jsonFlat {
	f.numbers = numbers
	f.init(f, schema, int64(rows))
	return f
}

// solid is how many numbers the column has, of which none is null; 0 if it is another column.
func (c *jsonColumn) solid(rows int) int {
	switch {
	case c.count != rows:
	case c.kind == jsonNumber && !c.integers():
		return rows
	case c.kind == jsonList && c.size > 0 && !c.nulls:
		return rows * c.size
	}
	return 0
}

// solidNumbers is how many numbers go to the slab.
func solidNumbers(out []jsonOut, rows int) (n int) {
	for i := range out {
		if within := out[i].within; len(within) > 0 {
			n += solidNumbers(within, rows)
		} else {
			n += out[i].column.solid(rows)
		}
	}
	return n
}

// flat reports whether the record is a jsonFlat.
func (t *jsonTable) flat(rows int) bool {
	for i := range t.out {
		if len(t.out[i].within) > 0 || t.out[i].column.solid(rows) == 0 {
			return false
		}
	}
	return len(t.out) > 0
}

// width is the numbers per row in column i.
func (f *jsonFlat) width(i int) int {
	if list, ok := f.schema.Field(i).Type.(*arrow.FixedSizeListType); ok {
		return int(list.Len())
	}
	return 1
}

// Buffers appends the buffers of all columns to dst.
func (f *jsonFlat) Buffers(dst [][]byte) [][]byte {
	from := 0
	for i := range f.schema.NumFields() {
		t := f.schema.Field(i).Type
		for range flatipc.Count(t) - 1 {
			dst = append(dst, nil)
		}
		to := from + int(f.rows)*f.width(i)
		dst = append(dst, arrow.GetBytes(f.numbers[from:to]))
		from = to
	}
	return dst
}

// Buffer returns one of them.
func (f *jsonFlat) Buffer(i int) []byte { return f.Buffers(nil)[i] }

func (f *jsonFlat) record() arrow.Record {
	cols := make([]arrow.Array, f.schema.NumFields())
	from := 0
	for i := range cols {
		t := f.schema.Field(i).Type
		n := int(f.rows) * f.width(i)
		data := array.NewData(arrow.PrimitiveTypes.Float64, n, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(f.numbers[from : from+n]))}, nil, 0, 0)
		if t.ID() == arrow.FIXED_SIZE_LIST {
			data = array.NewData(t, int(f.rows), []*memory.Buffer{nil}, []arrow.ArrayData{data}, 0, 0)
		}
		cols[i] = array.MakeFromData(data)
		from += n
	}
	return array.NewRecord(f.schema, cols, f.rows)
}
