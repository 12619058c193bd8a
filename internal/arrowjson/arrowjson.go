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

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/jsontext"
)

// Rows are the rows of one record after the other. What depends on the schema alone is kept.
type Rows struct {
	schema *arrow.Schema
	fields []field
}

type field struct {
	name  string
	key   []byte // with the comma before and the colon behind it
	value appender
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
	}
	return fill(r.fields, rec.Columns())
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
func fill(fields []field, columns []arrow.Array) (err error) {
	for i := range fields {
		if fields[i].value, err = values(columns[i]); err != nil {
			return fmt.Errorf("arrowjson: column %q: %w", fields[i].name, err)
		}
	}
	return nil
}

// Append appends the keys and values of a row, without the braces around them.
func (r *Rows) Append(dst []byte, row int) []byte { return appendFields(dst, r.fields, row) }

func appendFields(dst []byte, fields []field, row int) []byte {
	for i := range fields {
		key := fields[i].key
		if i == 0 {
			key = key[1:]
		}
		dst = fields[i].value(append(dst, key...), row)
	}
	return dst
}
