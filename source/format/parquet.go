package format

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/parquet-go/parquet-go"
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
