package format

import (
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
)

// lazyRecord is the part that records share whose columns are made only when they are needed. A record embeds one, and init makes it point back.
type lazyRecord struct {
	schema *arrow.Schema
	rows   int64
	of     columnMaker
	once   sync.Once
	made   arrow.Record
}

// columnMaker makes the columns of a record, as a record that has them.
type columnMaker interface{ record() arrow.Record }

func (r *lazyRecord) init(of columnMaker, schema *arrow.Schema, rows int64) {
	r.of, r.schema, r.rows = of, schema, rows
}

func (r *lazyRecord) whole() arrow.Record {
	r.once.Do(func() { r.made = r.of.record() })
	return r.made
}

// Schema, NumRows, NumCols and ColumnName need no column.
func (r *lazyRecord) Schema() *arrow.Schema   { return r.schema }
func (r *lazyRecord) NumRows() int64          { return r.rows }
func (r *lazyRecord) NumCols() int64          { return int64(r.schema.NumFields()) }
func (r *lazyRecord) ColumnName(i int) string { return r.schema.Field(i).Name }

// Retain and Release do nothing: the values belong to the collector.
func (r *lazyRecord) Retain()  {}
func (r *lazyRecord) Release() {}

// Columns and the others make the columns.
func (r *lazyRecord) Columns() []arrow.Array           { return r.whole().Columns() }
func (r *lazyRecord) Column(i int) arrow.Array         { return r.whole().Column(i) }
func (r *lazyRecord) MarshalJSON() ([]byte, error)     { return r.whole().MarshalJSON() }
func (r *lazyRecord) NewSlice(i, j int64) arrow.Record { return r.whole().NewSlice(i, j) }

// SetColumn returns a record with another column i.
func (r *lazyRecord) SetColumn(i int, col arrow.Array) (arrow.Record, error) {
	return r.whole().SetColumn(i, col)
}
