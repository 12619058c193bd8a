package backtest

import (
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/rowrecord"
)

// oneRow is one row of a record, the message of that row. Of hundreds of columns the arrays of a single row take longer than to learn it, so they are
// made only where they are asked for. It serves one goroutine.
type oneRow struct {
	arrow.Record // the one with the row
	at           int64
	made         arrow.Record // the row as a record that has arrays; nil: none asked for them
}

var _ rowrecord.Record = (*oneRow)(nil)

// newOneRow is row at of a record. It is released as a record is.
func newOneRow(rec arrow.Record, at int64) *oneRow {
	rec.Retain()
	return &oneRow{Record: rec, at: at}
}

func (r *oneRow) whole() arrow.Record {
	if r.made == nil {
		r.made = r.Record.NewSlice(r.at, r.at+1)
	}
	return r.made
}

// Release ends the row, where no other has retained it.
func (r *oneRow) Release() {
	if r.made != nil {
		r.made.Release()
		r.made = nil
	}
	r.Record.Release()
}

// NumRows is 1.
func (r *oneRow) NumRows() int64 { return 1 }

// Columns and the others make the arrays.
func (r *oneRow) Columns() []arrow.Array               { return r.whole().Columns() }
func (r *oneRow) Column(i int) arrow.Array             { return r.whole().Column(i) }
func (r *oneRow) MarshalJSON() ([]byte, error)         { return r.whole().MarshalJSON() }
func (r *oneRow) NewSlice(from, to int64) arrow.Record { return r.whole().NewSlice(from, to) }

// SetColumn returns a record with another column i.
func (r *oneRow) SetColumn(i int, col arrow.Array) (arrow.Record, error) {
	return r.whole().SetColumn(i, col)
}

// Value returns the value of a column of a type that is shown.
func (r *oneRow) Value(i int) (v rowrecord.Value) {
	col, at := r.Record.Column(i), int(r.at)
	if v.Valid = col.IsValid(at); !v.Valid {
		return v
	}
	switch col := col.(type) {
	case *array.Float64:
		v.Bits = math.Float64bits(col.Value(at))
	case *array.Float32:
		v.Bits = uint64(math.Float32bits(col.Value(at)))
	case *array.Int64:
		v.Bits = uint64(col.Value(at))
	case *array.Int32:
		v.Bits = uint64(int64(col.Value(at)))
	case *array.Uint64:
		v.Bits = col.Value(at)
	case *array.Uint32:
		v.Bits = uint64(col.Value(at))
	case *array.Timestamp:
		v.Bits = uint64(col.Value(at))
	case *array.Duration:
		v.Bits = uint64(col.Value(at))
	case *array.Boolean:
		if col.Value(at) {
			v.Bits = 1
		}
	case *array.String:
		v.Text = []byte(col.Value(at))
	case *array.Binary:
		v.Text = col.Value(at)
	}
	return v
}
