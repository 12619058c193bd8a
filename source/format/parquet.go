package format

import (
	"fmt"
	"math"
	"os"

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
// one page is in memory, and the values of one batch.
//
// Arrow's own reader, pqarrow, is not used because it would link gRPC and Thrift into the program.
type parquetFile struct {
	f       *os.File
	file    *parquet.File
	fields  *arrow.Schema
	columns []parquetNode
	leaves  []parquetLeaf
	pieces  []groupPiece

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

func openParquetFile(path string, maxRows int) (_ table, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	p := &parquetFile{f: f, group: -1}
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
	if p.file, err = parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true)); err != nil {
		return nil, errorf(CodeParquetInvalid, "%w", err)
	}
	if err := decodeInPlace(p.file.Root()); err != nil {
		return nil, errorf(CodeParquetInvalid, "%w", err)
	}
	shape := parquetShape{halves: float16Leaves(p.file.Metadata())}
	var fields []arrow.Field
	for _, c := range p.file.Root().Columns() {
		if node, ok := shape.node(c, 0, 0); ok {
			p.columns = append(p.columns, node)
			fields = append(fields, arrow.Field{Name: c.Name(), Type: node.dt, Nullable: true})
		}
	}
	if len(fields) == 0 {
		return nil, errorf(CodeParquetInvalid, "it has no columns")
	}
	p.leaves, p.fields = shape.leaves, arrow.NewSchema(fields, nil)
	return p, p.cut(int64(maxRows))
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
	return p.f.Close()
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
		p.enter(piece.group)
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
func (p *parquetFile) enter(group int) {
	p.leave()
	chunks := p.file.RowGroups()[group].ColumnChunks()
	for i := range p.leaves {
		p.open = append(p.open, newLeafReader(&p.leaves[i], chunks[p.leaves[i].column]))
	}
	p.values = make([]leafValues, len(p.leaves))
	p.group, p.row = group, 0
}

// gather makes values those of the next n rows.
func (p *parquetFile) gather(n int) error {
	row := p.row
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
