package format

import (
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/rowrecord"
)

// protoRow is a row with columns of any kind. Those that hold a single value are made into arrays only when these are needed.
type protoRow struct {
	lazyRecord
	values []rowrecord.Value // by column, of those that show it
	nested []arrow.Array     // by column, of the others
}

var _ rowrecord.Record = (*protoRow)(nil)

// row makes a record of a message of any kind, or leaves an error in the reader.
func (p *protoPlan) row(r *protoReader, f *protoFrame) arrow.Record {
	row := &protoRow{values: make([]rowrecord.Value, len(p.columns))}
	row.init(row, p.schema, 1)
	var cols []rowColumn
	if p.nested {
		cols, row.nested = newRowColumns(p.shapes), make([]arrow.Array, len(p.columns))
	}
	for i, s := range p.columns {
		if rowrecord.Shows(s.typ) {
			row.values[i] = r.single(s, f)
			continue
		}
		r.write(s, f, cols)
	}
	if r.err != nil {
		return nil
	}
	for i, s := range p.columns {
		if rowrecord.Shows(s.typ) {
			continue
		}
		data := s.array(cols)
		if sized := s.sized(cols, data); sized != nil {
			data, row.schema = sized, withType(row.schema, i, sized.DataType())
		}
		row.nested[i] = array.MakeFromData(data)
	}
	return row
}

// single returns the value of a shape that has a single one.
func (r *protoReader) single(s *protoShape, f *protoFrame) (v rowrecord.Value) {
	if !r.spend(rowValueBytes) || !s.present(f) {
		return v
	}
	bits, text := r.value(s, f)
	if s.form == protoEnum {
		text = []byte(s.enumName(bits))
	}
	r.spend(int64(len(text)))
	return rowrecord.Value{Bits: bits, Text: text, Valid: true}
}

// Value returns the value of a column that holds a single one.
func (r *protoRow) Value(i int) rowrecord.Value { return r.values[i] }

func (r *protoRow) record() arrow.Record {
	arrays := make([]arrow.Array, len(r.values))
	for i := range arrays {
		if t := r.schema.Field(i).Type; rowrecord.Shows(t) {
			arrays[i] = array.MakeFromData(columnOf(t, r.values[i]))
		} else {
			arrays[i] = r.nested[i]
		}
	}
	return array.NewRecord(r.schema, arrays, 1)
}

// columnOf makes a column of a single value.
func columnOf(t arrow.DataType, v rowrecord.Value) arrow.ArrayData {
	var c rowColumn
	if v.Valid {
		c.put(t, v.Bits, v.Text)
	} else {
		c.null(t)
	}
	return c.array(t, nil)
}

// Column returns an array, which is made of all columns at once if this one has to be made.
func (r *protoRow) Column(i int) arrow.Array {
	if r.nested != nil && r.nested[i] != nil {
		return r.nested[i]
	}
	return r.lazyRecord.Column(i)
}
