package rowfile

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Bounds of what a Parquet file holds in memory until it is written.
const (
	groupRows  = 1 << 20  // of one row group
	groupBytes = 32 << 20 // of one row group, about
	pageBytes  = 64 << 10 // of one page of each column
	shredRows  = 1 << 10  // whose values are made at a time: few enough for a processor's cache
)

// dictionaryBytes bounds the dictionary of a text column in a row group; beyond it, texts are written one by one.
const dictionaryBytes = 1 << 20

// parquetFile writes a Parquet file with Zstandard.
type parquetFile struct {
	w       *parquet.GenericWriter[any]
	columns []*parquetColumn
	entries []entry // of the rows that are written

	rows  int   // of the row group
	begun int64 // bytes of the file where it begins
}

func newParquetFile(w io.Writer, schema *arrow.Schema) (*parquetFile, error) {
	p, fields := &parquetFile{}, make([]parquet.Field, schema.NumFields())
	for i, f := range schema.Fields() {
		node, column, err := parquetColumnOf(f.Type, optional, 0)
		if err != nil {
			return nil, fmt.Errorf("rowfile: column %q is of type %s, which is not written to Parquet files: %w", f.Name, f.Type, err)
		}
		fields[i], p.columns = &field{node, f.Name}, append(p.columns, column)
	}
	p.w = parquet.NewGenericWriter[any](w, parquet.NewSchema("schema", groupOf(fields)), parquet.Compression(&zstd.Codec{}),
		parquet.DictionaryMaxBytes(dictionaryBytes), parquet.PageBufferSize(pageBytes))
	writers, number, shared := p.w.ColumnWriters(), 0, new(scratch)
	for _, c := range p.columns {
		number = c.attach(writers, number, shared)
	}
	return p, nil
}

func (p *parquetFile) Write(pieces ...[]byte) error { return eachBatch(pieces, p.write) }

func (p *parquetFile) write(rec arrow.Record) error {
	for from, rows := 0, int(rec.NumRows()); from < rows; from += shredRows {
		to := min(rows, from+shredRows)
		p.entries = p.entries[:0]
		for i := from; i < to; i++ {
			p.entries = append(p.entries, entry{at: int32(i)})
		}
		for c, column := range p.columns {
			if err := column.shred(rec.Column(c), p.entries); err != nil {
				return fmt.Errorf("rowfile: column %q: %w", rec.ColumnName(c), err)
			}
		}
		if p.rows += to - from; p.rows < groupRows && p.w.Size()-p.begun < groupBytes {
			continue
		}
		if err := p.w.Flush(); err != nil {
			return fmt.Errorf("rowfile: %w", err)
		}
		p.rows, p.begun = 0, p.w.Size()
	}
	return nil
}

// Lost is how many values are null because Parquet has no unit of theirs and they do not fit into the one that it has.
func (p *parquetFile) Lost() (n int) {
	for _, c := range p.columns {
		n += c.unfit()
	}
	return n
}

func (p *parquetFile) Close() error {
	if err := p.w.Close(); err != nil {
		return fmt.Errorf("rowfile: %w", err)
	}
	return nil
}
