package format

import (
	"github.com/apache/arrow/go/v15/arrow"
)

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
