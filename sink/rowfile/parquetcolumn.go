package rowfile

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/parquet-go/parquet-go"
)

// parquetColumn writes the arrays of a column, or of one within it. Parquet stores leaves only; the levels of each of their entries
// say how far the columns around it are there (definition), and which list goes on (repetition).
type parquetColumn struct {
	optional bool
	children []*parquetColumn // of a struct, or the items of a list
	entries  []entry
	items    []entry
	rep      uint8 // of a list: repetition level of all items after the first

	leaf   *parquet.ColumnWriter // nil: not a leaf
	number int                   // of the leaf
	reader leafReader
	fits   fit // nil: all values do
	lost   int // values that do not fit, which are null
	shared *scratch
}

// scratch is memory that all leaves share, which keeps it in the processor's cache.
type scratch struct {
	entries []entry
	values  []parquet.Value
}

// entry is an element of an array on its way to the leaves.
type entry struct {
	at       int32 // its place in the array; −1: something around it is null or empty
	def, rep uint8
}

// attach gives the leaves their writers, the first of them that of a number, and returns the number after the last.
func (c *parquetColumn) attach(writers []*parquet.ColumnWriter, number int, shared *scratch) int {
	if c.reader != nil {
		c.leaf, c.number, c.shared = writers[number], number, shared
		return number + 1
	}
	for _, child := range c.children {
		number = child.attach(writers, number, shared)
	}
	return number
}

// unfit counts the values that do not fit.
func (c *parquetColumn) unfit() int {
	n := c.lost
	for _, child := range c.children {
		n += child.unfit()
	}
	return n
}

// shred writes elements of an array.
func (c *parquetColumn) shred(a arrow.Array, in []entry) error {
	if ext, ok := a.(array.ExtensionArray); ok {
		return c.shred(ext.Storage(), in)
	}
	if c.leaf != nil {
		return c.write(a, in)
	}
	c.entries = append(c.entries[:0], in...)
	if c.optional {
		present(a, c.entries)
	}
	switch a := a.(type) {
	case *array.Struct:
		for i, child := range c.children {
			if err := child.shred(a.Field(i), c.entries); err != nil {
				return err
			}
		}
		return nil
	case *array.Map: // a list of structs of a key and an item
		c.expand(a)
		if err := c.children[0].shred(a.Keys(), c.items); err != nil {
			return err
		}
		return c.children[1].shred(a.Items(), c.items)
	default:
		list := a.(array.ListLike)
		c.expand(list)
		return c.children[0].shred(list.ListValues(), c.items)
	}
}

// expand makes items the elements of the lists, and one entry of each list that has none.
func (c *parquetColumn) expand(a array.ListLike) {
	c.items = c.items[:0]
	for _, e := range c.entries {
		if e.at < 0 {
			c.items = append(c.items, e)
			continue
		}
		from, to := a.ValueOffsets(int(e.at))
		if from == to {
			c.items = append(c.items, entry{at: -1, def: e.def, rep: e.rep})
		}
		for i := from; i < to; i++ {
			item := entry{at: int32(i), def: e.def + 1, rep: c.rep}
			if i == from {
				item.rep = e.rep
			}
			c.items = append(c.items, item)
		}
	}
}

// write writes elements of the array of a leaf.
func (c *parquetColumn) write(a arrow.Array, in []entry) error {
	s := c.shared
	s.entries = append(s.entries[:0], in...)
	if c.optional {
		present(a, s.entries)
	}
	if c.fits != nil {
		if err := c.leaveOut(c.fits(a), s.entries); err != nil {
			return err
		}
	}
	s.values = slices.Grow(s.values[:0], len(in))[:len(in)]
	c.reader(a)(s.values, s.entries, c.number)
	_, err := c.leaf.WriteRowValues(s.values)
	return err
}

// leaveOut makes values null that do not fit. What may not be null, the key of a map, is an error.
func (c *parquetColumn) leaveOut(fits func(i int) bool, entries []entry) error {
	for i := range entries {
		e := &entries[i]
		switch {
		case e.at < 0 || fits(int(e.at)):
		case !c.optional:
			return fmt.Errorf("a key is a time that Parquet has not: %w", errNoType)
		default:
			e.at, e.def, c.lost = -1, e.def-1, c.lost+1
		}
	}
	return nil
}

// present raises the definition level of the elements that are not null.
func present(a arrow.Array, entries []entry) {
	isNull := a.IsNull
	switch a := a.(type) {
	case *array.Dictionary: // whose words may be null, too
		words := a.Dictionary()
		isNull = func(i int) bool { return a.IsNull(i) || words.IsNull(a.GetValueIndex(i)) }
	case *array.Null:
		isNull = func(int) bool { return true }
	default:
		if a.NullN() == 0 {
			isNull = nil
		}
	}
	for i := range entries {
		switch e := &entries[i]; {
		case e.at < 0:
		case isNull != nil && isNull(int(e.at)):
			e.at = -1
		default:
			e.def++
		}
	}
}
