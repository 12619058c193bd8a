package format

import (
	"sync"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/flatipc"
)

// flat is a record that is decoded only when its columns are needed. Its message has a layout that was met
// before, so its numbers are where they were then and, whatever they are, they are sound: one comparison stands for
// the whole of decoding, and Buffers gives the numbers as they lie.
type flat struct {
	layout  *flatipc.Layout
	value   []byte
	decoder *arrowDecoder
	once    sync.Once
	whole   arrow.Record
}

// Buffers appends the buffers of all columns to dst.
func (f *flat) Buffers(dst [][]byte) [][]byte { return f.layout.Buffers(dst, f.value) }

// Buffer returns one of them.
func (f *flat) Buffer(i int) []byte { return f.layout.Buffer(f.value, i) }

// record decodes the message.
func (f *flat) record() arrow.Record {
	f.once.Do(func() {
		rec, err := f.decoder.decodeBatches(f.value, nil)
		if err != nil {
			panic("format: internal error: a message of a known layout cannot be decoded: " + err.Error())
		}
		f.whole = rec
	})
	return f.whole
}

var _ flatipc.Record = (*flat)(nil)

// Schema, NumRows, NumCols and ColumnName need no column.
func (f *flat) Schema() *arrow.Schema   { return f.layout.Schema }
func (f *flat) NumRows() int64          { return f.layout.Rows }
func (f *flat) NumCols() int64          { return int64(f.layout.Schema.NumFields()) }
func (f *flat) ColumnName(i int) string { return f.layout.Schema.Field(i).Name }

// Retain and Release do nothing: the numbers belong to the collector.
func (f *flat) Retain()  {}
func (f *flat) Release() {}

// Columns and the others decode the message.
func (f *flat) Columns() []arrow.Array           { return f.record().Columns() }
func (f *flat) Column(i int) arrow.Array         { return f.record().Column(i) }
func (f *flat) MarshalJSON() ([]byte, error)     { return f.record().MarshalJSON() }
func (f *flat) NewSlice(i, j int64) arrow.Record { return f.record().NewSlice(i, j) }

// SetColumn returns a record with another column i.
func (f *flat) SetColumn(i int, col arrow.Array) (arrow.Record, error) {
	return f.record().SetColumn(i, col)
}
