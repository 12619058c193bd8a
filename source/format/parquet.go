package format

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// CodeParquetInvalid is a Parquet file that breaks off, or holds nothing that is read.
const CodeParquetInvalid = "parquet_invalid"

// parquetFormat is Parquet, as files only.
var parquetFormat = spec{
	name:       "parquet",
	title:      "a Parquet file",
	extensions: []string{".parquet"},
	open:       openParquetFile,
}

// parquetFile is a Parquet file whose columns are read as Arrow, one row group after the other and page by page: of each column
// one page is in memory, and the values of one batch. What pages and values take is measured before it is made: see pageGuard and budget.
//
// Arrow's own reader, pqarrow, is not used because it would link gRPC and Thrift into the program.
type parquetFile struct {
	f       *os.File
	file    *parquet.File
	fields  *arrow.Schema
	columns []parquetNode
	leaves  []parquetLeaf
	pieces  []groupPiece
	most    int64 // bytes of a batch
	changed func(column, how string, n int)
	left    budget // of the batch that is read

	group  int           // row group that readers are in
	row    int64         // row of the group they stand at
	open   []*leafReader // one per leaf; nil: none
	values []leafValues  // of the batch that is read, one per leaf
}

// groupPiece is a run of rows of one row group.
type groupPiece struct {
	group    int
	from, to int64
}

func openParquetFile(path string, c FileConfig) (_ table, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	p := &parquetFile{f: f, group: -1, most: c.MaxBytes, changed: c.Changed}
	defer func() {
		if r := recover(); r != nil {
			err = errorf(CodeParquetInvalid, "its footer: %v", r)
		}
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkFooter(f, info.Size(), p.most); err != nil {
		return nil, errorf(CodeParquetInvalid, "%w", err)
	}
	if p.file, err = parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true)); err != nil {
		if strings.Contains(err.Error(), "DecryptionConfig") { // a footer in plain text says so
			err = errEncrypted
		}
		return nil, errorf(CodeParquetInvalid, "%w", err)
	}
	if err := p.shape(c.Need); err != nil {
		return nil, errorf(CodeParquetInvalid, "%w", err)
	}
	return p, p.cut(p.batchRows(int64(c.MaxRows)))
}

// columnBytes is about what a column takes besides its values, measured from the reader to the model: its pages' reader, its array, what is known of it.
const columnBytes = 16 << 10

// shape finds the columns.
func (p *parquetFile) shape(need func(arrow.Field) bool) error {
	shape := parquetShape{halves: float16Leaves(p.file.Metadata())}
	var fields []arrow.Field
	for _, c := range p.file.Root().Columns() {
		first := len(shape.leaves)
		node, ok := shape.node(c, 0, 0)
		if !ok {
			continue
		}
		field := arrow.Field{Name: c.Name(), Type: node.dt, Nullable: true}
		if need != nil && !need(field) {
			shape.leaves = shape.leaves[:first]
			node, field.Type = parquetNode{dt: arrow.Null, leaf: -1}, arrow.Null
		}
		p.columns, fields = append(p.columns, node), append(fields, field)
	}
	if len(fields) == 0 {
		return errors.New("it has no columns")
	}
	if takes := int64(len(shape.leaves)) * columnBytes; takes > p.most {
		return fmt.Errorf("%d columns take about %d MiB in memory, at most %d are read (half of memory.limit): raise memory.limit, or write fewer columns", len(shape.leaves), takes>>20, p.most>>20)
	}
	p.leaves, p.fields = shape.leaves, arrow.NewSchema(fields, nil)
	shared := new(codecs)
	for i := range p.leaves {
		l := &p.leaves[i]
		l.guard = &pageGuard{f: p.f, leaf: l, most: p.most}
		column := p.file.Root()
		for _, name := range l.names {
			column = column.Column(name)
		}
		if err := l.guard.decodes(column, shared); err != nil {
			return err
		}
	}
	return nil
}

// batchRows is how many rows of the file a batch has: as many as take a quarter of its bytes as numbers, because texts and what the rows become
// take more, but as many as a learner surveys in any case.
func (p *parquetFile) batchRows(most int64) int64 {
	const surveyed, share = 1 << 14, 4
	var each int64
	for i := range p.leaves {
		each += p.leaves[i].bytes()
	}
	return min(most, max(surveyed, p.most/share/max(each, 1)))
}

// cut divides the row groups into pieces, and checks that they have the rows that the footer says.
func (p *parquetFile) cut(maxRows int64) error {
	var total int64
	for g, group := range p.file.RowGroups() {
		n := group.NumRows()
		if n < 0 {
			return errorf(CodeParquetInvalid, "row group %d has %d rows", g, n)
		}
		for from := int64(0); from < n; from += maxRows {
			p.pieces = append(p.pieces, groupPiece{g, from, min(n, from+maxRows)})
		}
		total += n
	}
	if total != p.file.NumRows() {
		return errorf(CodeParquetInvalid, "the footer says %d rows, its row groups have %d", p.file.NumRows(), total)
	}
	return nil
}

func (p *parquetFile) rows() int64  { return p.file.NumRows() }
func (p *parquetFile) batches() int { return len(p.pieces) }

func (p *parquetFile) schema() *arrow.Schema { return p.fields }

func (p *parquetFile) close() error {
	p.leave()
	for i := range p.leaves {
		p.tell(&p.leaves[i].lost, p.leaves[i].path, nullTimes)
		p.tell(&p.leaves[i].short, p.leaves[i].path, shortTimes)
	}
	return p.f.Close()
}

// What became of times in INT96.
const (
	nullTimes  = "times of a Parquet file beyond the years ±292,000 are null"
	shortTimes = "times of a Parquet file have nanoseconds in INT96, and are read without what is less than a microsecond"
)

func (p *parquetFile) tell(n *int, column, how string) {
	if *n > 0 && p.changed != nil {
		p.changed(column, how, *n)
	}
	*n = 0
}

func (p *parquetFile) leave() {
	for _, r := range p.open {
		r.close()
	}
	p.open, p.values, p.group = nil, nil, -1
}

func (p *parquetFile) read(i int) (arrow.Record, error) {
	piece := p.pieces[i]
	rec, err := p.piece(piece)
	if err != nil {
		p.leave()
		return nil, errorf(CodeParquetInvalid, "row group %d, from row %d: %w", piece.group, piece.from, err)
	}
	return rec, nil
}

func (p *parquetFile) piece(piece groupPiece) (arrow.Record, error) {
	if p.group != piece.group || p.row > piece.from {
		if err := p.enter(piece.group); err != nil {
			return nil, err
		}
	}
	for p.row < piece.from { // a seek: a page says only once it is decoded how many rows it has
		n := min(piece.from-p.row, 1<<10)
		if err := p.gather(int(n)); err != nil {
			return nil, err
		}
	}
	n := int(piece.to - piece.from)
	if err := p.gather(n); err != nil {
		return nil, err
	}
	cols := make([]arrow.Array, len(p.columns))
	for c := range p.columns {
		if p.columns[c].leaf < 0 {
			cols[c] = array.NewNull(n)
			continue
		}
		data, err := p.columns[c].data(p.leaves, p.values)
		if err == nil && data.Len() != n {
			err = errLevels
		}
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", p.fields.Field(c).Name, err)
		}
		cols[c] = array.MakeFromData(data)
	}
	return array.NewRecord(p.fields, cols, int64(n)), nil
}

// enter opens the leaves of a row group.
func (p *parquetFile) enter(group int) error {
	p.leave()
	chunks := p.file.RowGroups()[group].ColumnChunks()
	for i := range p.leaves {
		leaf := &p.leaves[i]
		if err := leaf.guard.enter(&p.file.Metadata().RowGroups[group].Columns[leaf.column].MetaData); err != nil {
			return fmt.Errorf("column %q: %w", leaf.path, err)
		}
		p.open = append(p.open, newLeafReader(leaf, chunks[leaf.column], &p.left))
	}
	p.values = make([]leafValues, len(p.leaves))
	p.group, p.row = group, 0
	return nil
}

// gather makes values those of the next n rows.
func (p *parquetFile) gather(n int) error {
	row := p.row
	p.left = budget{p.most, p.most, n}
	p.row = math.MaxInt64 // after a fault, or a panic of the library, the leaves stand at different rows
	for i, r := range p.open {
		p.values[i] = leafValues{}
		if err := r.read(n, &p.values[i]); err != nil {
			return fmt.Errorf("column %q: %w", p.leaves[i].path, err)
		}
	}
	p.row = row + int64(n)
	return nil
}

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
