package pipeline

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/arrowavro"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// What did not come as Avro gets a schema that is made of its columns. Fields of it may all be null, so that a registry
// takes the next schema where a message has columns more or less.

// errNotAvro is a message of which no Avro can be made.
var errNotAvro = errors.New("no Avro can be made of the message")

// columnSchema is the schema that is made of the columns of a message.
type columnSchema struct {
	in   *arrow.Schema
	key  writerKey
	text string
}

// convert appends an output of Avro for a message that is none: its only row, and our fields.
func (o *registeredOutput) convert(ctx context.Context, dst []byte, m *source.Message, w *Whitened) ([]byte, error) {
	rows := int(m.Record.NumRows())
	w.check(rows, &o.config)
	if rows != 1 {
		return nil, fmt.Errorf("%w: it has %d rows, and a value of Avro is one; send one row per message, or set transform.format to json or arrow", errNotAvro, rows)
	}
	if o.registry == nil {
		return nil, errNoRegistry
	}
	rec := m.Record
	if err := o.config.place(rec.Schema(), o.config.fields(w.K)); err != nil {
		return nil, err
	}
	if o.config.Passthrough && (m.Format == format.JSON || m.Format == format.JSONSchema) {
		rec = typed(rec)
		if f := oddFeature(rec.Schema(), w.Features); f != nil {
			return nil, fmt.Errorf("%w: feature %q is %s in this message, and a field of Avro has one type; send a number, or set transform.format to json or arrow", errNotAvro, f.Name, f.Type)
		}
		all, err := o.known.columns.with(rec.Schema())
		if err != nil {
			return nil, err
		}
		rec = paddedRow(rec, all)
	}
	if err := o.prepare(rec.Schema(), w.K); err != nil {
		return nil, err
	}
	made, err := o.head(dst, o.columns.key, func() (int, error) {
		return o.publish(ctx, &format.Schema{Type: format.SchemaAvro, Text: o.columns.text})
	})
	if err != nil {
		return nil, err
	}
	if o.config.Passthrough {
		made, err = arrowavro.Append(made, rec, 0, o.most)
		if errors.Is(err, arrowavro.ErrTooLarge) {
			return nil, fmt.Errorf("%w: the row makes more than %d bytes of Avro", errTooLong, o.most)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w; set transform.format to json or arrow", errNotAvro, err)
		}
	}
	return o.avro(made, w), nil
}

// typed is a row without the columns of which JSON does not say the type: those that are null, and lists without a number.
// Taken for one type here and for another in the next message, they would give schemas that do not read each other.
func typed(row arrow.Record) arrow.Record {
	var fields []arrow.Field
	var columns []arrow.Array
	for i, c := range row.Columns() {
		if saysType(c) {
			fields, columns = append(fields, row.Schema().Field(i)), append(columns, c)
		}
	}
	if len(fields) == int(row.NumCols()) {
		return row
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), columns, 1)
}

// saysType reports whether the only row of a column has a value, or a list with one.
func saysType(column arrow.Array) bool {
	list, ok := column.(array.ListLike)
	if !ok || column.IsNull(0) {
		return !column.IsNull(0)
	}
	items := list.ListValues()
	from, to := list.ValueOffsets(0)
	for i := from; i < to; i++ {
		if !items.IsNull(int(i)) {
			return true
		}
	}
	return false
}

// prepare makes the schema of messages with the given columns, unless that of the last one serves.
func (o *registeredOutput) prepare(in *arrow.Schema, k int) error {
	if o.columns.key.k == k && o.columns.in != nil && (o.columns.in == in || o.columns.in.Equal(in)) {
		return nil
	}
	var columns []arrow.Field
	if o.config.Passthrough {
		columns = in.Fields()
	}
	text, err := arrowavro.Schema(o.subject, columns, o.config.Names(k))
	if err != nil {
		return fmt.Errorf("%w: %w; set transform.format to json or arrow", errNotAvro, err)
	}
	if text, err = avroWith(text, o.config.fields(k), true); err != nil {
		return err
	}
	o.columns = columnSchema{in, writerKey{made: sha256.Sum256([]byte(text)), k: k}, text}
	return nil
}
