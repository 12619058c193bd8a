// Package modelkey says which model a row belongs to: where its value is (model.by of the configuration), what the value
// is, and the id of its model.
//
// Begin with [Parse], which reads model.by, and with [By.OfMessage] or [By.Column], which find the values of rows. [ID]
// makes the id of a model.
package modelkey

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/internal/nested"
	"github.com/lca-stream/lca-stream/source"
)

// MostBytes is the longest value in bytes. A row with a longer one has no model.
const MostBytes = 200

// Place is where the value of a row is.
type Place uint8

// The places; the zero value is one model for all rows.
const (
	None   Place = iota
	Key          // the message's key
	Header       // the last of the message's headers of a name
	Column       // a column of the row
)

// By is model.by of the configuration.
type By struct {
	Place Place
	Name  string // of the header or the column
}

const (
	byNone   = "none"
	byKey    = "key"
	byHeader = "header:"
	byColumn = "column:"
)

// Parse reads none, key, header:NAME or column:NAME.
func Parse(text string) (By, error) {
	switch {
	case text == byNone:
		return By{}, nil
	case text == byKey:
		return By{Place: Key}, nil
	}
	for prefix, place := range map[string]Place{byHeader: Header, byColumn: Column} {
		if name, ok := strings.CutPrefix(text, prefix); ok && name != "" {
			return By{place, name}, nil
		}
	}
	return By{}, fmt.Errorf("modelkey: %q: want none, key, header:NAME or column:NAME", text)
}

// String is the inverse of Parse.
func (b By) String() string {
	switch b.Place {
	case Key:
		return byKey
	case Header:
		return byHeader + b.Name
	case Column:
		return byColumn + b.Name
	}
	return byNone
}

// ColumnName is the name of the column that has the values; "" where they are elsewhere.
func (b By) ColumnName() string {
	if b.Place != Column {
		return ""
	}
	return b.Name
}

// Keyed reports whether there is a model for each value.
func (b By) Keyed() bool { return b.Place != None }

// OfMessage returns the value that all rows of a message have, by key or header. It returns false if they have none: a
// null key, no header of that name, a header of null, or a value longer than MostBytes.
func (b By) OfMessage(m *source.Message) (value []byte, ok bool) {
	value = b.Whole(m)
	return value, value != nil && len(value) <= MostBytes
}

// Whole is OfMessage with values of any length; nil: there is none.
func (b By) Whole(m *source.Message) []byte {
	switch b.Place {
	case Key:
		return m.Key
	case Header:
		return source.LastHeaderValue(m.Headers, b.Name)
	}
	return nil
}

const hexadecimal = "0123456789ABCDEF"

// ID returns the id of a model: <base>/<partition>/<value>, with the bytes of the value percent-encoded in upper case
// except for A-Z, a-z, 0-9, _ and -. A value need not be UTF-8.
func ID(base string, partition int32, value []byte) string {
	b := make([]byte, 0, len(base)+16+len(value))
	b = append(append(b, base...), '/')
	b = append(strconv.AppendInt(b, int64(partition), 10), '/')
	return string(AppendEscaped(b, value))
}

// AppendEscaped appends a value as ID has it.
func AppendEscaped(b, value []byte) []byte {
	for _, c := range value {
		if plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hexadecimal[c>>4], hexadecimal[c&15])
		}
	}
	return b
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// Split is the inverse of ID. An id is read from the right, because a base may have slashes. It returns false for
// text that ID does not return.
func Split(id string) (base string, partition int32, value []byte, ok bool) {
	rest, encoded, found := CutLast(id)
	if !found {
		return "", 0, nil, false
	}
	base, number, found := CutLast(rest)
	n, err := strconv.ParseInt(number, 10, 32)
	if !found || err != nil || n < 0 {
		return "", 0, nil, false
	}
	if value, ok = Unescape(encoded); !ok || ID(base, int32(n), value) != id {
		return "", 0, nil, false
	}
	return base, int32(n), value, true
}

// CutLast divides an id, or the key of a record, at its last slash: they are read from the right, because a base may have slashes of its own.
func CutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, '/')
	if i < 0 {
		return "", "", false
	}
	return text[:i], text[i+1:], true
}

// Unescape is the inverse of AppendEscaped.
func Unescape(text string) (value []byte, ok bool) {
	value = make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			value = append(value, text[i])
			continue
		}
		if i+2 >= len(text) {
			return nil, false
		}
		c, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return nil, false
		}
		value = append(value, byte(c))
		i += 2
	}
	return value, true
}

// The codes of a ColumnError: short and stable, fit for a header or a metric label.
const (
	CodeType      = "model_column_type"      // the column is there, but has no text, integers or booleans
	CodeAmbiguous = "model_column_ambiguous" // two columns have the name
	CodeCorrupt   = "model_column_corrupt"   // offsets or dictionary indices point outside the data
)

// ColumnError reports a record whose column gives no values. It concerns the whole record. A single row without a
// value is no error.
type ColumnError struct {
	Code   string
	Column string
	Detail string
}

// Error says what was found.
func (e *ColumnError) Error() string {
	return fmt.Sprintf("modelkey: model.by: column %q: %s", e.Column, e.Detail)
}

// Values are the values of the rows of a record.
type Values struct {
	n     int
	of    func(row int) (string, bool)
	array arrow.Array // nil: no row has a value
}

// In reports whether a schema has the column; true: values are in none.
func (b By) In(schema *arrow.Schema) bool {
	if b.Place != Column {
		return true
	}
	_, found := nested.Find(schema, b.Name)
	return found > 0
}

// Column returns the values of a record's rows in the column. It takes text, dictionaries of text, integers and booleans,
// which become decimals, true and false. JSON has no type for integers, so float64 counts too: a number that is no integer is no value. What JSON has
// besides is no text, though a record holds it as such: one object can be written in many ways. Where a record holds it among values of other types, its rows have
// no value. In a record without the column no row has one. The caller calls Release.
func (b By) Column(rec arrow.Record) (Values, error) {
	n := int(rec.NumRows())
	path, count := nested.Find(rec.Schema(), b.Name)
	switch {
	case count == 0:
		return Values{n: n}, nil
	case count > 1:
		return Values{}, &ColumnError{CodeAmbiguous, b.Name, "two columns have this name"}
	}
	col, err := path.Column(rec)
	if err != nil {
		return Values{}, &ColumnError{CodeCorrupt, b.Name, err.Error()}
	}
	of := valueOf(col)
	if text, ok := col.(*array.String); ok && nested.IsKept(rec.Schema(), b.Name) {
		if of = cells(text); of == nil {
			col.Release()
			return Values{}, &ColumnError{CodeType, b.Name, "it holds JSON objects and arrays; a model's value is text, an integer or a boolean"}
		}
	}
	if of == nil {
		col.Release()
		if col.DataType().ID() == arrow.NULL {
			return Values{n: n}, nil
		}
		return Values{}, &ColumnError{CodeType, b.Name, fmt.Sprintf("its type is %s; a model's value is text, an integer or a boolean", col.DataType())}
	}
	return Values{n: n, of: of, array: col}, nil
}

// Len returns the number of rows.
func (v *Values) Len() int { return v.n }

// At returns the value of a row, which is valid until Release: it may be in the memory of the record. It returns false for a null, and for text longer than MostBytes.
func (v *Values) At(row int) (value string, ok bool) {
	value, ok = v.Whole(row)
	return value, ok && len(value) <= MostBytes
}

// Whole is At with values of any length.
func (v *Values) Whole(row int) (value string, ok bool) {
	if v.array == nil || v.array.IsNull(row) {
		return "", false
	}
	return v.of(row)
}

// Release releases the column.
func (v *Values) Release() {
	if v.array != nil {
		v.array.Release()
		v.array = nil
	}
}

// valueOf returns what gives the value of a row that is not null; nil for other types.
func valueOf(col arrow.Array) func(row int) (string, bool) {
	switch col := col.(type) {
	case *array.String:
		return func(i int) (string, bool) { return col.Value(i), true }
	case *array.LargeString:
		return func(i int) (string, bool) { return col.Value(i), true }
	case *array.StringView: // polars' text
		return func(i int) (string, bool) { return col.Value(i), true }
	case *array.Boolean:
		return func(i int) (string, bool) { return strconv.FormatBool(col.Value(i)), true }
	case *array.Dictionary:
		return entryOf(col)
	case *array.Int8:
		return integers(col.Value)
	case *array.Int16:
		return integers(col.Value)
	case *array.Int32:
		return integers(col.Value)
	case *array.Int64:
		return integers(col.Value)
	case *array.Uint8:
		return integers(col.Value)
	case *array.Uint16:
		return integers(col.Value)
	case *array.Uint32:
		return integers(col.Value)
	case *array.Float64:
		return whole(col.Value)
	case *array.Uint64:
		return func(i int) (string, bool) { return strconv.FormatUint(col.Value(i), 10), true }
	}
	return nil
}

// cells returns what gives the value of a row that is not null, in a column of JSON values as they were written; nil: no row has one. The values are those
// of a column of one type.
func cells(col *array.String) func(row int) (string, bool) {
	of := func(i int) (string, bool) { return cell(col.Value(i)) }
	for i := range col.Len() {
		if col.IsValid(i) {
			if _, ok := of(i); ok {
				return of
			}
		}
	}
	return nil
}

func cell(text string) (string, bool) {
	switch text[0] {
	case '{', '[':
		return "", false
	case '"':
		var s string
		return s, json.Unmarshal([]byte(text), &s) == nil
	case 't', 'f':
		return text, true
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.FormatInt(n, 10), true
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return strconv.FormatUint(n, 10), true
	}
	x, _ := strconv.ParseFloat(text, 64)
	return whole(func(int) float64 { return x })(0)
}

func integers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32](at func(int) T) func(int) (string, bool) {
	return func(i int) (string, bool) { return strconv.FormatInt(int64(at(i)), 10), true }
}

// mostWhole is the number from which on float64 has not all integers.
const mostWhole = 1 << 53

func whole(at func(int) float64) func(int) (string, bool) {
	return func(i int) (string, bool) {
		v := at(i)
		if v != math.Trunc(v) || math.Abs(v) >= mostWhole {
			return "", false
		}
		return strconv.FormatInt(int64(v), 10), true
	}
}

// entryOf looks values up in a dictionary. An index outside of it, and one of a null entry, give no value.
func entryOf(col *array.Dictionary) func(row int) (string, bool) {
	entries := col.Dictionary()
	of := valueOf(entries)
	if of == nil {
		return nil
	}
	return func(i int) (string, bool) {
		k := col.GetValueIndex(i)
		if k < 0 || k >= entries.Len() || entries.IsNull(k) {
			return "", false
		}
		return of(k)
	}
}
