package format

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/internal/flatipc"
	"github.com/lca-stream/lca-stream/internal/nested"
)

// jsonFiller receives the values of one column in the second pass. Rows that do not come are null.
type jsonFiller interface {
	// set stores the value, which is not null, of a row; rows come in order.
	set(row int, value []byte)
	// done returns the array of n rows.
	done(rows int) arrow.ArrayData
}

func (d *jsonDecoder) record(t *jsonTable, value []byte, a *Arena) arrow.Record {
	if t.first.schema != nil {
		return t.row(a)
	}
	return d.fill(t, value)
}

// fill is the second pass: it allocates what the first one measured, and reads the values.
func (d *jsonDecoder) fill(t *jsonTable, value []byte) arrow.Record {
	rows := len(t.rows)
	slab := make([]float64, solidNumbers(t.out, rows))
	whole := slab
	t.types = t.types[:0]
	for i := range t.out {
		var dt arrow.DataType
		dt, slab = t.out[i].prepare(rows, slab)
		t.types = append(t.types, dt)
	}
	for row, at := range t.rows {
		t.fillObject(&cursor{b: value, i: int(at.from)}, &t.top, row)
	}
	schema := d.jsonSchema(t)
	var rec arrow.Record
	if t.flat(rows) {
		rec = newJSONFlat(new(jsonFlat), schema, rows, whole)
	} else {
		cols := make([]arrow.Array, len(t.out))
		for i := range t.out {
			cols[i] = array.MakeFromData(t.out[i].done(rows))
		}
		rec = array.NewRecord(schema, cols, int64(rows))
	}
	for _, c := range t.met {
		c.filler, c.floats = nil, nil
	}
	return rec
}

// fillObject is the second pass over an object.
func (t *jsonTable) fillObject(c *cursor, l *jsonLevel, row int) {
	c.i++
	var col *jsonColumn
	for c.more('}') {
		next := l.first
		if col != nil {
			next = col.after
		}
		if next != nil && bytes.HasPrefix(c.b[c.i:], next.key) {
			c.i += len(next.key)
		} else {
			from := c.i
			c.text()
			next = t.column(l, col, c.b[from:c.i])
		}
		col = next
		c.peek()
		c.i++
		c.peek()
		t.fillValue(c, col, row)
	}
}

func (t *jsonTable) fillValue(c *cursor, col *jsonColumn, row int) {
	if col.floats != nil {
		col.floats[row] = c.numberOrText()
		return
	}
	from := c.i
	switch first := c.b[from]; {
	case first == '{' && col.inner != nil:
		t.fillObject(c, &col.inner.object, row)
	case first == '[' && col.inner != nil && len(col.inner.places) > 0:
		t.fillArray(c, col.inner.places, row)
	default:
		c.pass()
	}
	if col.filler != nil && c.b[from] != 'n' {
		col.filler.set(row, c.b[from:c.i])
	}
}

func (t *jsonTable) fillArray(c *cursor, places []jsonPlace, row int) {
	c.i++
	for n := 0; c.more(']'); n++ {
		if len(places) > 0 && places[0].at == n {
			t.fillValue(c, places[0].column, row)
			places = places[1:]
		} else {
			c.pass()
		}
	}
}

// jsonSchema is that of a message.
type jsonSchema struct {
	schema *arrow.Schema
	names  []string
	types  []arrow.DataType
	kept   []string
}

// jsonSchema returns the schema of the record: that of the last message, if it had the same columns. Small messages
// are smaller than their schema.
func (d *jsonDecoder) jsonSchema(t *jsonTable) *arrow.Schema {
	last := d.last.Load()
	if last != nil && last.of(t) {
		return last.schema
	}
	s := &jsonSchema{types: slices.Clone(t.types), kept: keptAsWritten(t.out, "", nil)}
	fields := make([]arrow.Field, len(t.out))
	for i := range t.out {
		s.names = append(s.names, t.out[i].name)
		fields[i] = arrow.Field{Name: t.out[i].name, Type: t.types[i], Nullable: true}
	}
	s.schema = nested.Open(fields, s.kept...)
	d.last.Store(s)
	return s.schema
}

func (s *jsonSchema) of(t *jsonTable) bool {
	if len(s.names) != len(t.out) {
		return false
	}
	for i, name := range s.names {
		if name != t.out[i].name || s.types[i] != t.types[i] && !arrow.TypeEqual(s.types[i], t.types[i]) {
			return false
		}
	}
	return slices.Equal(s.kept, keptAsWritten(t.out, "", nil))
}

// keptAsWritten appends the names of the columns whose values are kept as they stand: their type is that of text, too.
func keptAsWritten(out []jsonOut, path string, names []string) []string {
	for i := range out {
		switch o := &out[i]; {
		case len(o.within) > 0:
			names = keptAsWritten(o.within, path+o.name+".", names)
		case o.column.kind == jsonText && strings.IndexByte(path+o.name, 0) < 0: // it stands between names
			names = append(names, path+o.name)
		}
	}
	return names
}

// prepare lets the column receive the values of the second pass, and returns its type. Numbers without a null among them
// go to the slab, which is returned without what they take.
func (o *jsonOut) prepare(rows int, slab []float64) (arrow.DataType, []float64) {
	switch n := o.column.solid(rows); {
	case len(o.within) > 0:
		fields := make([]arrow.Field, len(o.within))
		for i := range o.within {
			fields[i] = arrow.Field{Name: o.within[i].name, Nullable: true}
			fields[i].Type, slab = o.within[i].prepare(rows, slab)
		}
		return arrow.StructOf(fields...), slab
	case n > 0 && o.column.kind == jsonNumber:
		o.column.floats, slab = slab[:n:n], slab[n:]
	default:
		var dt arrow.DataType
		o.column.filler, dt = o.column.newFiller(rows, slab[:n:n])
		return dt, slab[n:]
	}
	return arrow.PrimitiveTypes.Float64, slab
}

// done returns the values of the column after the second pass.
func (o *jsonOut) done(rows int) arrow.ArrayData {
	switch c := o.column; {
	case len(o.within) > 0:
		fields := make([]arrow.Field, len(o.within))
		children := make([]arrow.ArrayData, len(o.within))
		for i := range o.within {
			children[i] = o.within[i].done(rows)
			fields[i] = arrow.Field{Name: o.within[i].name, Type: children[i].DataType(), Nullable: true}
		}
		return array.NewData(arrow.StructOf(fields...), rows, []*memory.Buffer{nil}, children, 0, 0)
	case c.floats != nil:
		return array.NewData(arrow.PrimitiveTypes.Float64, rows, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(c.floats))}, nil, 0, 0)
	default:
		return c.filler.done(rows)
	}
}

// newFiller returns what receives the values of c, and the type they will have. A list of numbers without a null among
// them is written to the slab.
func (c *jsonColumn) newFiller(rows int, slab []float64) (jsonFiller, arrow.DataType) {
	if c.kind == jsonList {
		return c.listFiller(rows, slab)
	}
	v := newValidity(rows)
	switch c.kind {
	case jsonBool:
		return &boolFiller{validity: v, bits: make([]byte, (rows+7)/8)}, arrow.FixedWidthTypes.Boolean
	case jsonString:
		return &textFiller{validity: v, quoted: true, offsets: make([]int32, 1, rows+1), data: make([]byte, 0, c.text)}, arrow.BinaryTypes.String
	case jsonText:
		return &textFiller{validity: v, key: c.key, decimal: c.decimal, offsets: make([]int32, 1, rows+1), data: make([]byte, 0, c.raw)}, arrow.BinaryTypes.String
	}
	switch {
	case c.integers() && c.signed:
		return newNumberFiller(v, rows, arrow.PrimitiveTypes.Int64, func(s []byte) (int64, error) { return strconv.ParseInt(aliased(s), 10, 64) })
	case c.integers():
		return newNumberFiller(v, rows, arrow.PrimitiveTypes.Uint64, func(s []byte) (uint64, error) { return strconv.ParseUint(aliased(s), 10, 64) })
	}
	return newNumberFiller(v, rows, arrow.PrimitiveTypes.Float64, func(s []byte) (float64, error) {
		c := cursor{b: s}
		return c.numberOrText(), nil
	})
}

// integers reports whether a column of numbers is one of int64 or uint64.
func (c *jsonColumn) integers() bool { return c.whole && c.long && (c.signed || c.unsigned) }

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
	parse  func([]byte) (T, error)
	dt     arrow.DataType
}

func newNumberFiller[T int64 | uint64 | float64](v validity, rows int, dt arrow.DataType, parse func([]byte) (T, error)) (jsonFiller, arrow.DataType) {
	return &numberFiller[T]{validity: v, values: make([]T, rows), parse: parse, dt: dt}, dt
}

// set needs no error: the first pass has found that the integers fit.
func (f *numberFiller[T]) set(row int, value []byte) {
	f.mark(row)
	f.values[row], _ = f.parse(value)
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
	decimal bool    // text that is a number is kept as one
	key     []byte  // of the column, as it was written
	times   int     // how often the last row has come
	offsets []int32 // of the rows so far, and where the next begins
	data    []byte
}

func (f *textFiller) set(row int, value []byte) {
	if f.decimal && value[0] == '"' {
		value = unquotedNumber(value)
	}
	if len(f.offsets) == row+2 {
		f.again(value)
		return
	}
	f.upTo(row)
	f.mark(row)
	f.times = 1
	if f.quoted {
		f.data = append(f.data, unquote(value)...)
	} else {
		f.data = append(f.data, value...)
	}
	f.offsets = append(f.offsets, int32(len(f.data)))
}

// unquotedNumber returns a number without the quotes around it, and other text as it is.
func unquotedNumber(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if c := (cursor{b: inner}); len(inner) > 0 {
		if _, ok := c.checkNumber(); ok && c.i == len(inner) {
			return inner
		}
	}
	return quoted
}

// again adds a value to those of the last row, as jsonColumn.again says.
func (f *textFiller) again(value []byte) {
	last := len(f.offsets) - 1
	if f.times++; f.times == 2 {
		f.data = slices.Insert(f.data, int(f.offsets[last-1]), slices.Concat([]byte("{"), f.key, []byte(":"))...)
	} else {
		f.data = f.data[:len(f.data)-1]
	}
	f.data = append(append(append(append(append(f.data, ','), f.key...), ':'), value...), '}')
	f.offsets[last] = int32(len(f.data))
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

// listFiller makes columns of arrays of numbers: of fixed size, or with offsets where size is 0.
type listFiller struct {
	validity
	size    int
	offsets []int32
	values  []float64
	items   validity
	solid   bool // there is no null, so that items is not kept
	dt      arrow.DataType
}

// listFiller returns what receives the lists of c; a slab that is not empty receives their numbers.
func (c *jsonColumn) listFiller(rows int, slab []float64) (jsonFiller, arrow.DataType) {
	f := &listFiller{validity: newValidity(rows)}
	n := int(c.numbers)
	if c.size > 0 {
		n = rows * c.size
		f.size, f.dt = c.size, arrow.FixedSizeListOf(int32(c.size), arrow.PrimitiveTypes.Float64)
	} else {
		f.dt = arrow.ListOf(arrow.PrimitiveTypes.Float64)
		f.offsets = make([]int32, 1, rows+1)
	}
	if f.solid = len(slab) > 0; f.solid {
		f.values = slab[:0]
	} else {
		f.values, f.items = make([]float64, 0, n), newValidity(n)
	}
	return f, f.dt
}

func (f *listFiller) set(row int, value []byte) {
	f.upTo(row)
	f.mark(row)
	for a := (cursor{b: value, i: 1}); a.more(']'); {
		x := 0.0
		if a.b[a.i] == 'n' {
			a.pass()
		} else {
			f.valid()
			x, _, _ = a.number()
		}
		f.values = append(f.values, x)
	}
	if f.size == 0 {
		f.offsets = append(f.offsets, int32(len(f.values)))
	}
}

// valid marks the next number as one.
func (f *listFiller) valid() {
	if !f.solid {
		f.items.mark(len(f.values))
	}
}

// upTo lets the rows before row that did not come be null: of a fixed size they take room, which
// counts as valid so that a null list is told from a list of nulls by its own bitmap alone.
func (f *listFiller) upTo(row int) {
	if f.size == 0 {
		for len(f.offsets) <= row {
			f.offsets = append(f.offsets, int32(len(f.values)))
		}
		return
	}
	for len(f.values) < row*f.size {
		f.valid()
		f.values = append(f.values, 0)
	}
}

func (f *listFiller) done(rows int) arrow.ArrayData {
	f.upTo(rows)
	if f.solid {
		f.items.count = len(f.values)
	}
	items := f.items.data(arrow.PrimitiveTypes.Float64, len(f.values), nil, arrow.GetBytes(f.values))
	if f.size > 0 {
		return f.data(f.dt, rows, []arrow.ArrayData{items})
	}
	return f.data(f.dt, rows, []arrow.ArrayData{items}, arrow.GetBytes(f.offsets))
}

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

// A message of one row of numbers needs no second pass, because the first keeps the numbers of the first row. And if it has the keys of
// the message before, in their order, it has the columns of that, which need not be chosen again.

// mostFirst bounds the numbers of the first row that are kept. One with more is read twice.
const mostFirst = 4096

// jsonFirst is what a table keeps of first rows, and of the last message that had no other.
type jsonFirst struct {
	numbers []float64     // of this message's first row, in the order in which they came
	met     []*jsonColumn // keys of the last message of one row of numbers; the table's out has its columns
	widths  []int         // numbers in each of these columns
	need    int64         // bytes that they take
	schema  *arrow.Schema // nil: there was no such message, or another one since
}

// number passes a number of the first row and keeps it; it reports what checkNumber does.
func (f *jsonFirst) number(c *cursor) (whole, ok bool) {
	x, whole, ok := c.number()
	if len(f.numbers) < mostFirst {
		f.numbers = append(f.numbers, x)
	}
	return whole, ok
}

// again reports whether the message is one row of numbers that has the columns of the last such message.
func (t *jsonTable) again() bool {
	if t.first.schema == nil || len(t.rows) != 1 || len(t.first.numbers) == mostFirst || !slices.Equal(t.met, t.first.met) {
		return false
	}
	for i, n := range t.first.widths {
		if t.out[i].column.solid(1) != n {
			return false
		}
	}
	return true
}

// remember keeps the columns of the message, if it is one row of numbers.
func (t *jsonTable) remember(d *jsonDecoder, need int64) {
	t.first.schema = nil
	if len(t.rows) != 1 || len(t.first.numbers) == mostFirst || !t.flat(1) {
		return
	}
	t.first.met, t.first.widths, t.first.need, t.types = append(t.first.met[:0], t.met...), t.first.widths[:0], need, t.types[:0]
	for i := range t.out {
		c := t.out[i].column
		t.first.widths = append(t.first.widths, c.solid(1))
		if c.kind == jsonList {
			t.types = append(t.types, arrow.FixedSizeListOf(int32(c.size), arrow.PrimitiveTypes.Float64))
		} else {
			t.types = append(t.types, arrow.PrimitiveTypes.Float64)
		}
	}
	t.first.schema = d.jsonSchema(t)
}

// row is the record of a message whose columns are remembered.
func (t *jsonTable) row(a *Arena) *jsonFlat {
	numbers := a.numbers(len(t.first.numbers))
	for i, n := range t.first.widths {
		at := t.out[i].column.at
		numbers = append(numbers, t.first.numbers[at:at+n]...)
	}
	return newJSONFlat(a.text(), t.first.schema, 1, numbers)
}
