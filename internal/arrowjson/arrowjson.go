// Package arrowjson writes the rows of Arrow records as JSON objects: Rows.Reset for each record, then Append for each row.
//
//	integers                   digits, all of them
//	floating point             the shortest digits that read back the same; null for NaN and infinities
//	decimals                   a number with all its digits
//	utf8                       a string
//	binary                     a string of base64, with padding
//	boolean                    true, false
//	date                       "2026-11-22"
//	time                       "13:45:00.25"
//	timestamp                  "2026-11-22T13:45:00.25Z", in the column's time zone; without one, no zone is written
//	duration                   a number, in seconds
//	interval                   "P1Y2M3DT4.5S"
//	list                       an array
//	struct                     an object
//	map                        an object; keys that are not text are written as text, and one that comes twice comes twice
//	union                      the value of its branch
//	dictionary, run-end, extension   the value that they stand for
//	null                       null
//
// An error is about the schema: two columns of one name, which an object cannot have, or a type that is not in this list.
package arrowjson

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/jsontext"
	"github.com/lca-stream/lca-stream/internal/rowrecord"
)

// Rows are the rows of one record after the other. What depends on the schema alone is kept.
type Rows struct {
	schema *arrow.Schema
	fields []field
	row    rowrecord.Record // the only row; nil: the record has arrays
	bound  bound
}

type field struct {
	name   string
	key    []byte // with the comma before and the colon behind it
	value  appender
	single func(dst []byte, v rowrecord.Value) []byte // of a rowrecord.Record; nil: it does not show the value
}

// appender appends the value of a row, which may be null.
type appender func(dst []byte, row int) []byte

// Reset goes on to the rows of rec, which must not be released while they are written.
func (r *Rows) Reset(rec arrow.Record) (err error) {
	if schema := rec.Schema(); schema != r.schema {
		r.schema = nil
		if r.fields, err = keys(schema.Fields()); err != nil {
			return err
		}
		r.schema = schema
		for i := range r.fields {
			r.fields[i].single = single(schema.Field(i).Type, &r.bound)
		}
	}
	if r.bound.end == 0 {
		r.Until(0)
	}
	if r.row, _ = rec.(rowrecord.Record); r.row != nil {
		return r.fillNested()
	}
	return fill(r.fields, rec.Columns(), &r.bound)
}

// Until says at which length Append gives up: what it returns is then longer than that, by little, and no JSON. 0: it never does.
func (r *Rows) Until(end int) {
	if r.bound.end = end; end == 0 {
		r.bound.end = math.MaxInt
	}
}

// fillNested gives the fields whose values the row does not show those of its columns.
func (r *Rows) fillNested() error {
	for i := range r.fields {
		if f := &r.fields[i]; f.single == nil {
			if err := f.fill(r.row.Column(i), &r.bound); err != nil {
				return err
			}
		}
	}
	return nil
}

// keys returns fields without their values.
func keys(named []arrow.Field) ([]field, error) {
	fields := make([]field, len(named))
	seen := make(map[string]bool, len(named))
	for i, f := range named {
		if seen[f.Name] {
			return nil, fmt.Errorf("arrowjson: there are two columns %q, and the keys of a JSON object differ: rename one of them, or set transform.format to arrow", f.Name)
		}
		seen[f.Name] = true
		fields[i] = field{name: f.Name, key: append(jsontext.AppendString([]byte{','}, f.Name), ':')}
	}
	return fields, nil
}

// fill gives fields the values of columns.
func fill(fields []field, columns []arrow.Array, b *bound) error {
	for i := range fields {
		if err := fields[i].fill(columns[i], b); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) fill(column arrow.Array, b *bound) (err error) {
	if f.value, err = values(column, b); err != nil {
		return fmt.Errorf("arrowjson: column %q: %w", f.name, err)
	}
	return nil
}

// Append appends the keys and values of a row, without the braces around them.
func (r *Rows) Append(dst []byte, row int) []byte {
	if r.row == nil {
		return appendFields(dst, r.fields, row, &r.bound)
	}
	for i := range r.fields {
		f := &r.fields[i]
		if r.bound.reached(dst) {
			break
		}
		dst = append(dst, f.keyAt(i)...)
		if f.single == nil {
			dst = f.value(dst, row)
		} else if v := r.row.Value(i); v.Valid {
			dst = f.single(dst, v)
		} else {
			dst = append(dst, jsontext.Null...)
		}
	}
	return dst
}

func appendFields(dst []byte, fields []field, row int, b *bound) []byte {
	for i := range fields {
		if b.reached(dst) {
			break
		}
		dst = fields[i].value(append(dst, fields[i].keyAt(i)...), row)
	}
	return dst
}

// keyAt is the key of field i, the first of which has no comma before it.
func (f *field) keyAt(i int) []byte {
	if i == 0 {
		return f.key[1:]
	}
	return f.key
}
