package format

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
)

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
