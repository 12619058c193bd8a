package format

import (
	"errors"
	"fmt"
	"io"
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

// parquetFile is a Parquet file whose flat columns, and lists of numbers, are read as Arrow. Other
// nested columns and decimals are left out: no feature can be made of them.
//
// Arrow's own reader, pqarrow, is not used because it would link gRPC and Thrift into the program.
type parquetFile struct {
	f       *os.File
	file    *parquet.File
	schema  *arrow.Schema
	columns []parquetColumn
	pieces  []groupPiece

	group int           // row group that readers are in
	row   int64         // row of the group they stand at
	open  []*leafReader // one per column; nil: none
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
	if p.file, err = parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(false)); err != nil {
		return nil, errorf(CodeParquetInvalid, "%w", err)
	}
	var fields []arrow.Field
	halves := float16Leaves(p.file.Metadata())
	for _, c := range p.file.Root().Columns() {
		if col, ok := parquetColumnOf(c, halves); ok {
			p.columns = append(p.columns, col)
			fields = append(fields, arrow.Field{Name: c.Name(), Type: col.dt, Nullable: true})
		}
	}
	if len(fields) == 0 {
		return nil, errorf(CodeParquetInvalid, "no column is of a type that is read: numbers, text, bytes, times, or lists of numbers")
	}
	p.schema = arrow.NewSchema(fields, nil)
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

func (p *parquetFile) close() error {
	p.leave()
	return p.f.Close()
}

func (p *parquetFile) leave() {
	for _, r := range p.open {
		_ = r.pages.Close()
	}
	p.open, p.group = nil, -1
}

func (p *parquetFile) read(i int) (arrow.Record, error) {
	piece := p.pieces[i]
	if p.group != piece.group || p.row != piece.from {
		if err := p.enter(piece); err != nil {
			p.leave()
			return nil, errorf(CodeParquetInvalid, "row group %d, row %d: %w", piece.group, piece.from, err)
		}
	}
	n := int(piece.to - piece.from)
	cols := make([]arrow.Array, len(p.columns))
	for c := range cols {
		data, err := p.columns[c].read(p.open[c], n)
		if err != nil {
			p.leave()
			return nil, errorf(CodeParquetInvalid, "column %q, row group %d from row %d: %w", p.schema.Field(c).Name, piece.group, piece.from, err)
		}
		cols[c] = array.MakeFromData(data)
	}
	p.row = piece.to
	return array.NewRecord(p.schema, cols, int64(n)), nil
}

// enter opens the columns of a row group at a row.
func (p *parquetFile) enter(piece groupPiece) error {
	p.leave()
	chunks := p.file.RowGroups()[piece.group].ColumnChunks()
	for _, c := range p.columns {
		r := &leafReader{pages: chunks[c.leaf].Pages()}
		p.open = append(p.open, r)
		if piece.from > 0 {
			if err := r.pages.SeekToRow(piece.from); err != nil {
				return err
			}
		}
	}
	p.group, p.row = piece.group, piece.from
	return nil
}

// leafReader gives the values of one column chunk, across its pages. It copies none: a value is
// good until the next call.
type leafReader struct {
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buffer [256]parquet.Value
	ready  []parquet.Value // of buffer, not yet taken
}

// peek returns the next value without taking it; io.EOF after the last.
func (r *leafReader) peek() (*parquet.Value, error) {
	for len(r.ready) == 0 {
		if r.values == nil {
			page, err := r.pages.ReadPage()
			if err != nil {
				return nil, err
			}
			r.page, r.values = page, page.Values()
		}
		n, err := r.values.ReadValues(r.buffer[:])
		r.ready = r.buffer[:n]
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if errors.Is(err, io.EOF) {
			r.values = nil
		} else if n == 0 {
			return nil, io.ErrNoProgress
		}
	}
	return &r.ready[0], nil
}

// take takes the value that peek returned.
func (r *leafReader) take() { r.ready = r.ready[1:] }

// read reads the next n rows of the column. A chunk that ends before is an error: some readers
// give an encoding they do not know as an empty column.
func (c *parquetColumn) read(r *leafReader, n int) (arrow.ArrayData, error) {
	b := c.builder(n)
	for i := range n {
		v, err := r.peek()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("it ends after %d of %d rows: %w", i, n, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return nil, err
		}
		if !c.list {
			b.add(v, v.IsNull())
			r.take()
			continue
		}
		if err := c.readList(r, b); err != nil {
			return nil, err
		}
	}
	return b.done(), nil
}

// readList reads one row of a list: its first value has repetition level 0, the others more. The
// definition level tells a null list, an empty list and a null item apart.
func (c *parquetColumn) readList(r *leafReader, b *parquetBuilder) error {
	for first := true; ; first = false {
		v, err := r.peek()
		if errors.Is(err, io.EOF) && !first {
			break
		}
		if err != nil {
			return err
		}
		if !first && v.RepetitionLevel() == 0 {
			break
		}
		switch level := v.DefinitionLevel(); {
		case level >= c.item:
			b.add(v, v.IsNull())
		case level < c.item-1: // the list itself, or what holds it
			b.null()
			r.take()
			return nil
		}
		r.take()
	}
	b.endList()
	return nil
}
