package format

import (
	"math/bits"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetNode is how a column of a file, or one within it, becomes an Arrow array. Parquet stores leaves only; a leaf's levels say
// of each of its entries how far the columns around it are there (definition), and which list goes on (repetition):
// S. Melnik et al., "Dremel: Interactive Analysis of Web-Scale Datasets", VLDB 2010.
type parquetNode struct {
	dt       arrow.DataType
	leaf     int // the first leaf within it, whose levels say where it is null
	children []parquetNode

	there byte // definition level from which on there is an element: the item level of the list around it
	def   byte // definition level from which on the element is not null
	item  byte // definition level from which on a list has an item
	rep   byte // number of lists around it: a greater repetition level is of an element that was begun
}

// parquetShape makes the nodes of a file's columns.
type parquetShape struct {
	halves map[int]bool // leaves of half-precision numbers, which parquet-go gives as bytes
	leaves []parquetLeaf
}

// node returns the node of a column; false for one that has no leaf of a type that is read.
func (s *parquetShape) node(c *parquet.Column, there, rep byte) (parquetNode, bool) {
	if !c.Repeated() {
		return s.one(c, there, rep)
	}
	item := byte(c.MaxDefinitionLevel()) // repeated without a group around it: a list that is never null
	elem, ok := s.one(c, item, rep+1)
	return listNode(elem, there, item-1, item, rep), ok
}

func listNode(elem parquetNode, there, def, item, rep byte) parquetNode {
	return parquetNode{dt: arrow.ListOf(elem.dt), leaf: elem.leaf, children: []parquetNode{elem}, there: there, def: def, item: item, rep: rep}
}

// one returns the node of a column, or of one item of a column that is repeated.
func (s *parquetShape) one(c *parquet.Column, there, rep byte) (parquetNode, bool) {
	n := parquetNode{leaf: len(s.leaves), there: there, def: byte(c.MaxDefinitionLevel()), rep: rep}
	if c.Leaf() {
		leaf := parquetLeafOf(c, s.halves[c.Index()])
		if leaf.dt == nil {
			return n, false
		}
		s.leaves = append(s.leaves, leaf)
		n.dt = leaf.dt
		return n, true
	}
	if inner := c.Columns(); len(inner) == 1 && inner[0].Repeated() {
		item := byte(inner[0].MaxDefinitionLevel())
		switch {
		case isGroup[*format.ListType](c):
			elem, ok := s.item(c, inner[0], rep+1)
			return listNode(elem, there, n.def, item, rep), ok
		case isGroup[*format.MapType](c) && !inner[0].Leaf() && len(inner[0].Columns()) == 2:
			entries, ok := s.one(inner[0], item, rep+1)
			if !ok || len(entries.children) < 2 {
				return n, false
			}
			n.dt = arrow.MapOf(entries.children[0].dt, entries.children[1].dt)
			entries.dt = n.dt.(*arrow.MapType).Elem()
			n.children, n.item = []parquetNode{entries}, item
			return n, true
		}
	}
	var fields []arrow.Field
	for _, child := range c.Columns() {
		if node, ok := s.node(child, there, rep); ok {
			n.children = append(n.children, node)
			fields = append(fields, arrow.Field{Name: child.Name(), Type: node.dt, Nullable: true})
		}
	}
	n.dt = arrow.StructOf(fields...)
	return n, len(fields) > 0
}

// item returns the node of the items of a list. The repeated column is a level of its own, except in the older forms that the
// specification names under "Lists" (parquet-format, LogicalTypes).
func (s *parquetShape) item(list, repeated *parquet.Column, rep byte) (parquetNode, bool) {
	there := byte(repeated.MaxDefinitionLevel())
	older := repeated.Leaf() || len(repeated.Columns()) != 1 || repeated.Name() == "array" || strings.HasSuffix(repeated.Name(), "_tuple") && strings.TrimSuffix(repeated.Name(), "_tuple") == list.Name()
	if older {
		return s.one(repeated, there, rep)
	}
	return s.node(repeated.Columns()[0], there, rep)
}

// isGroup reports whether a group has a logical type.
func isGroup[T format.LogicalTypeValue](c *parquet.Column) bool {
	t := c.Type().LogicalType()
	if t == nil {
		return false
	}
	_, ok := t.Value.(T)
	return ok
}

// data returns the array of a node.
func (n *parquetNode) data(leaves []parquetLeaf, values []leafValues) (arrow.ArrayData, error) {
	v := &values[n.leaf]
	switch n.dt.(type) {
	case *arrow.StructType:
		bitmap, length, nulls := n.validity(v)
		children := make([]arrow.ArrayData, len(n.children))
		for i := range children {
			var err error
			if children[i], err = n.children[i].data(leaves, values); err != nil {
				return nil, err
			}
			if children[i].Len() != length {
				return nil, errLevels
			}
		}
		return array.NewData(n.dt, length, []*memory.Buffer{bitmap}, children, nulls, 0), nil
	case *arrow.ListType, *arrow.MapType:
		bitmap, length, nulls := n.validity(v)
		offsets := n.offsets(v, length)
		items, err := n.children[0].data(leaves, values)
		if err != nil {
			return nil, err
		}
		if int(offsets[length]) != items.Len() {
			return nil, errLevels
		}
		return array.NewData(n.dt, length, []*memory.Buffer{bitmap, memory.NewBufferBytes(arrow.GetBytes(offsets))}, []arrow.ArrayData{items}, nulls, 0), nil
	}
	bitmap, length, nulls := n.validity(v)
	return leaves[n.leaf].array(v, bitmap, length, nulls)
}

// validity returns the bitmap of the elements that are not null, nil if all are, the number of elements, and of nulls.
func (n *parquetNode) validity(v *leafValues) (bitmap *memory.Buffer, length, nulls int) {
	if v.reps == nil && (v.count == v.levels || n.def == 0) {
		return nil, v.levels, 0
	}
	set := make([]byte, (v.levels+7)/8)
	if v.reps == nil {
		present := packLevels(set, v.defs, n.def)
		return memory.NewBufferBytes(set), v.levels, v.levels - present
	}
	for i, def := range v.defs {
		if def < n.there || v.reps[i] > n.rep {
			continue
		}
		if def >= n.def {
			set[length/8] |= 1 << (length % 8)
		} else {
			nulls++
		}
		length++
	}
	if nulls == 0 {
		return nil, length, 0
	}
	return memory.NewBufferBytes(set[:(length+7)/8]), length, nulls
}

// packLevels sets the bits of levels that are not below one, and returns their number.
func packLevels(dst, levels []byte, least byte) int {
	n := 0
	for i := 0; i < len(levels); i += 8 {
		var b byte
		for k, level := range levels[i:min(i+8, len(levels))] {
			b |= byte((int(least)-1-int(level))>>63&1) << k
		}
		dst[i/8] = b
		n += bits.OnesCount8(b)
	}
	return n
}

// offsets returns where the items of each list begin, and where the last ends.
func (n *parquetNode) offsets(v *leafValues, length int) []int32 {
	offsets, items := make([]int32, 0, length+1), int32(0)
	for i, def := range v.defs {
		rep := v.reps[i]
		if rep <= n.rep && def >= n.there {
			offsets = append(offsets, items)
		}
		if rep <= n.rep+1 && def >= n.item {
			items++
		}
	}
	return append(offsets, items)
}
