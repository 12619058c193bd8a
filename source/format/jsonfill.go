package format

import (
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/nested"
)

// jsonFiller receives the values of one column in the second pass. Rows that do not come are null.
type jsonFiller interface {
	// set stores the value, which is not null, of a row; rows come in order.
	set(row int, value []byte)
	// done returns the array of n rows.
	done(rows int) arrow.ArrayData
}

// fill is the second pass: it allocates what the first one measured, and reads the values.
func (d *jsonDecoder) fill(t *jsonTable, value []byte) arrow.Record {
	t.fillers, t.fields = resized(t.fillers, len(t.columns)), resized(t.fields, len(t.columns))
	fillers, fields := t.fillers, t.fields
	for i, c := range t.columns {
		fields[i].Name, fields[i].Nullable = c.name, true
		fillers[i], fields[i].Type = c.filler(len(t.rows))
	}
	for row, at := range t.rows {
		t.next = 0
		for c := (cursor{b: at.of(value), i: 1}); c.more('}'); {
			key, v := c.pair()
			t.column(key)
			if v[0] != 'n' {
				fillers[t.next-1].set(row, v)
			}
		}
	}
	cols := make([]arrow.Array, len(fillers))
	for i, f := range fillers {
		cols[i] = array.MakeFromData(f.done(len(t.rows)))
	}
	return array.NewRecord(d.jsonSchema(fields), cols, int64(len(t.rows)))
}

// jsonSchema returns the schema of these fields: that of the last message, if it had the same. Small messages
// are smaller than their schema.
func (d *jsonDecoder) jsonSchema(fields []arrow.Field) *arrow.Schema {
	last := d.last.Load()
	same := last != nil && last.NumFields() == len(fields)
	for i := 0; same && i < len(fields); i++ {
		f := last.Field(i)
		same = f.Name == fields[i].Name && arrow.TypeEqual(f.Type, fields[i].Type)
	}
	if !same {
		last = nested.Open(fields)
		d.last.Store(last)
	}
	return last
}

// filler returns what receives the values of c, and the type they will have.
func (c *jsonColumn) filler(rows int) (jsonFiller, arrow.DataType) {
	v := newValidity(rows)
	switch c.kind {
	case jsonBool:
		return &boolFiller{validity: v, bits: make([]byte, (rows+7)/8)}, arrow.FixedWidthTypes.Boolean
	case jsonString, jsonText:
		return &textFiller{
			validity: v, quoted: c.kind == jsonString,
			offsets: make([]int32, 1, rows+1), data: make([]byte, 0, c.text),
		}, arrow.BinaryTypes.String
	case jsonList:
		return c.listFiller(rows, v)
	}
	switch {
	case c.whole && c.long && c.signed:
		return newNumberFiller(v, rows, arrow.PrimitiveTypes.Int64, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	case c.whole && c.long && c.unsigned:
		return newNumberFiller(v, rows, arrow.PrimitiveTypes.Uint64, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	}
	return newNumberFiller(v, rows, arrow.PrimitiveTypes.Float64, parseFloat)
}

// parseFloat reads a JSON number; one beyond float64 becomes an infinity.
func parseFloat(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

// validity is the bitmap of values that came.
type validity struct {
	bits  []byte
	count int
}

func newValidity(n int) validity { return validity{bits: make([]byte, (n+7)/8)} }

func (v *validity) mark(i int) {
	v.bits[i/8] |= 1 << (i % 8)
	v.count++
}

// data returns the array data of n values; without nulls it leaves the bitmap out.
func (v *validity) data(dt arrow.DataType, n int, children []arrow.ArrayData, buffers ...[]byte) *array.Data {
	all := make([]*memory.Buffer, 1, 1+len(buffers))
	if v.count < n {
		all[0] = memory.NewBufferBytes(v.bits)
	}
	for _, b := range buffers {
		all = append(all, memory.NewBufferBytes(b))
	}
	return array.NewData(dt, n, all, children, n-v.count, 0)
}

// numberFiller makes columns of numbers.
type numberFiller[T int64 | uint64 | float64] struct {
	validity
	values []T
	parse  func(string) (T, error)
	dt     arrow.DataType
}

func newNumberFiller[T int64 | uint64 | float64](v validity, rows int, dt arrow.DataType, parse func(string) (T, error)) (jsonFiller, arrow.DataType) {
	return &numberFiller[T]{validity: v, values: make([]T, rows), parse: parse, dt: dt}, dt
}

// set keeps the value that parse returns with a range error: an infinity.
func (f *numberFiller[T]) set(row int, value []byte) {
	f.mark(row)
	f.values[row], _ = f.parse(aliased(value))
}

func (f *numberFiller[T]) done(rows int) arrow.ArrayData {
	return f.data(f.dt, rows, nil, arrow.GetBytes(f.values))
}

// boolFiller makes columns of true and false.
type boolFiller struct {
	validity
	bits []byte
}

func (f *boolFiller) set(row int, value []byte) {
	f.mark(row)
	if value[0] == 't' {
		f.bits[row/8] |= 1 << (row % 8)
	}
}

func (f *boolFiller) done(rows int) arrow.ArrayData {
	return f.data(arrow.FixedWidthTypes.Boolean, rows, nil, f.bits)
}

// textFiller makes columns of strings, and of JSON text.
type textFiller struct {
	validity
	quoted  bool
	offsets []int32 // of the rows so far, and where the next begins
	data    []byte
}

func (f *textFiller) set(row int, value []byte) {
	f.upTo(row)
	f.mark(row)
	if f.quoted {
		f.data = append(f.data, unquote(value)...)
	} else {
		f.data = append(f.data, value...)
	}
	f.offsets = append(f.offsets, int32(len(f.data)))
}

// upTo lets the rows before row that did not come be empty.
func (f *textFiller) upTo(row int) {
	for len(f.offsets) <= row {
		f.offsets = append(f.offsets, int32(len(f.data)))
	}
}

func (f *textFiller) done(rows int) arrow.ArrayData {
	f.upTo(rows)
	return f.validity.data(arrow.BinaryTypes.String, rows, nil, arrow.GetBytes(f.offsets), f.data)
}
