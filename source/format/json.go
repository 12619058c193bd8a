package format

import (
	"bytes"
	"context"
	"strconv"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// JSON is read as rows: one object, an array of objects, or one object per line. The keys of all
// rows are the columns, in the order they are first met; a row without a key is null there.
//
//	{"t": 21.5, "p": 1013}                 float64 columns t, p
//	{"id": "a7", "x": [0.1, 0.2, 0.3]}     utf8 column id, FixedSizeList<float64, 3> column x
//
// Types are those of a whole message: numbers are float64 (int64 or uint64 where one of only
// integers has more than 15 digits, so that identifiers survive), strings utf8, true and false bool. An
// array of numbers is a list, of fixed size where all its rows have one length. Other arrays and
// objects are kept as their JSON text in a utf8 column. A column of nothing but null is float64.
// 1e999 is read as +Inf, as everywhere, and then is an invalid row, not an invalid message.

// The codes of JSON.
const (
	CodeJSONInvalid  = "json_invalid"   // not JSON, not UTF-8, or a key twice in one row
	CodeJSONType     = "json_type"      // a row that is no object, or a column of mixed types
	CodeJSONTooLarge = "json_too_large" // more rows, columns, nesting or cells than the limits
)

// jsonFormat is JSON as the value of a message.
var jsonFormat = spec{
	name:        JSON,
	title:       "JSON",
	looks:       looksJSON,
	contentType: "json",
	decoder:     func(Config) valueDecoder { return new(jsonDecoder) },
	invalid:     CodeJSONInvalid,
	tooLarge:    CodeJSONTooLarge,
	otherCodes:  []string{CodeJSONType},
}

// looksJSON reports whether the first byte that is not space opens an object or an array. A zero
// byte near the start belongs to a length, not to text.
func looksJSON(value []byte) bool {
	if bytes.IndexByte(value[:min(len(value), 8)], 0) >= 0 {
		return false
	}
	value = bytes.TrimLeft(bytes.TrimPrefix(value, []byte(byteOrderMark)), jsonSpace)
	return len(value) > 0 && (value[0] == '{' || value[0] == '[')
}

// jsonDepth bounds the nesting of a value; nothing here recurses, but readers downstream may.
const jsonDepth = 64

// jsonKind is the type of a column so far.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonNumber
	jsonBool
	jsonString
	jsonList // arrays of numbers and null
	jsonText // other arrays, objects: kept as they stand
)

func (k jsonKind) String() string {
	return [...]string{"null", "a number", "true or false", "a string", "an array of numbers", "an object or array"}[k]
}

// jsonColumn is what the first pass learns about a column; with it the second pass allocates
// once, and exactly.
type jsonColumn struct {
	name     string
	key      []byte // name as it was first written, with its quotes
	kind     jsonKind
	row      int   // last row that has it
	text     int64 // bytes of strings, at most
	numbers  int64 // numbers in lists
	size     int   // of every list so far; -1 where they differ
	signed   bool  // no number needs uint64
	unsigned bool  // no number is negative
	whole    bool  // every number is an integer that int64 or uint64 holds
	long     bool  // one has more than 15 digits, which float64 may round
}

// jsonTable is the state of reading one value.
type jsonTable struct {
	limits  ipcguard.Limits
	rows    []span
	columns []*jsonColumn
	byName  map[string]int
	next    int // column that is expected, as rows tend to repeat their keys in order

	fillers []jsonFiller  // of the second pass
	fields  []arrow.Field // of their columns
}

// jsonDecoder reads JSON values.
type jsonDecoder struct {
	last   atomic.Pointer[arrow.Schema] // of a message
	tables jsonTables
}

// decode reads one value in two passes over its text: what columns are there, then their values.
func (d *jsonDecoder) decode(_ context.Context, value []byte, a *Arena) (arrow.Record, error) {
	t := d.tables.take()
	t.limits.Decoded = a.budget(t.limits.Decoded)
	err := jsonRows(value, func(row int, at span) error {
		t.rows = append(t.rows, at)
		return t.measure(row, at.of(value))
	})
	if err != nil {
		return nil, err
	}
	if need := t.bytes(); need > t.limits.Decoded {
		return nil, errorf(CodeJSONTooLarge, "%d rows of %d columns take %d bytes, at most %d are held; send fewer rows per message",
			len(t.rows), len(t.columns), need, t.limits.Decoded)
	}
	a.spend(t.bytes() + int64(len(t.columns))*jsonColumnBytes + int64(len(t.rows))*jsonRowBytes)
	rec := d.fill(t, value)
	d.tables.give(t) // not after a panic
	return rec, nil
}

// What the objects of a column and of a row take, in addition to the values.
const (
	jsonColumnBytes = 700
	jsonRowBytes    = 8
)

// measure is the first pass over one row.
func (t *jsonTable) measure(row int, text []byte) error {
	if int64(len(t.rows)) > t.limits.Rows {
		return errorf(CodeJSONTooLarge, "more than %d rows; send fewer a message", t.limits.Rows)
	}
	if text[0] != '{' {
		return errorf(CodeJSONType, "row %d is %s; a row is an object, such as {\"x\": [1, 2]}", row, describeJSON(text))
	}
	t.next = 0
	for c := (cursor{b: text, i: 1}); c.more('}'); {
		key, value := c.pair()
		col := t.column(key)
		if len(t.columns) > t.limits.Fields {
			return errorf(CodeJSONTooLarge, "row %d: more than %d keys; send numbers as one array", row, t.limits.Fields)
		}
		if col.row == row {
			return errorf(CodeJSONInvalid, "row %d: key %q is there twice", row, clip(col.name))
		}
		col.row = row
		if err := col.measure(value); err != nil {
			return errorf(err.Code, "row %d, key %q: %w", row, clip(col.name), err.Err)
		}
	}
	return nil
}

// column finds the column of a key; if there is none, it makes one.
func (t *jsonTable) column(key []byte) *jsonColumn {
	if t.next < len(t.columns) && bytes.Equal(t.columns[t.next].key, key) {
		t.next++
		return t.columns[t.next-1]
	}
	i, ok := t.byName[unquote(key)]
	if !ok {
		i = len(t.columns)
		t.byName[t.add(key)] = i
	}
	t.next = i + 1
	return t.columns[i]
}

// measure takes one more value into the type of the column.
func (c *jsonColumn) measure(value []byte) *Error {
	kind := kindOf(value)
	switch kind {
	case jsonNull:
		return nil
	case jsonNumber:
		c.measureNumber(value)
	case jsonString:
		c.text += int64(len(value) - 2)
	case jsonList, jsonText:
		if tooDeep(value, jsonDepth) {
			return errorf(CodeJSONTooLarge, "nested deeper than %d", jsonDepth)
		}
		c.text += int64(len(value)) // in case the column is of JSON text
	}
	if kind == jsonList {
		c.measureList(value)
	}
	switch {
	case c.kind == jsonNull:
		c.kind = kind
	case c.kind == jsonList && kind == jsonText:
		c.kind = jsonText // an empty array tells no type
	case c.kind == jsonText && kind == jsonList:
	case c.kind != kind:
		return errorf(CodeJSONType, "%s, where earlier rows have %s", kind, c.kind)
	}
	return nil
}

// measureNumber finds out whether the column needs integers. Up to 15 digits float64 is exact.
func (c *jsonColumn) measureNumber(value []byte) {
	for _, b := range value {
		if b == '.' || b == 'e' || b == 'E' {
			c.whole = false
			return
		}
	}
	if value[0] == '-' {
		c.unsigned = false
	}
	if len(value) <= 15 {
		return
	}
	c.long = true
	if _, err := strconv.ParseInt(aliased(value), 10, 64); err != nil {
		c.signed = false
		if _, err = strconv.ParseUint(aliased(value), 10, 64); err != nil {
			c.whole = false
		}
	}
}

func (c *jsonColumn) measureList(value []byte) {
	n := 0
	for a := (cursor{b: value, i: 1}); a.more(']'); n++ {
		a.value()
	}
	if c.numbers == 0 && c.size == 0 {
		c.size = n
	}
	if c.size != n || n == 0 {
		c.size = -1
	}
	c.numbers += int64(n)
}

// kindOf tells the kind of a value by its first byte; arrays are looked through.
func kindOf(value []byte) jsonKind {
	switch value[0] {
	case 'n':
		return jsonNull
	case 't', 'f':
		return jsonBool
	case '"':
		return jsonString
	case '{':
		return jsonText
	case '[':
		for a := (cursor{b: value, i: 1}); a.more(']'); {
			if k := a.value()[0]; k == '"' || k == '{' || k == '[' || k == 't' || k == 'f' {
				return jsonText
			}
		}
		return jsonList
	}
	return jsonNumber
}

// bytes is what the columns will take.
func (t *jsonTable) bytes() int64 {
	var need int64
	for _, c := range t.columns {
		need += c.bytes(int64(len(t.rows)))
	}
	return need
}

func (c *jsonColumn) bytes(rows int64) int64 {
	bitmap := (rows + 7) / 8
	switch c.kind {
	case jsonBool:
		return 2 * bitmap
	case jsonString, jsonText:
		return bitmap + 4*(rows+1) + c.text
	case jsonList:
		if c.size > 0 {
			return bitmap + rows*int64(c.size)*8 + (rows*int64(c.size)+7)/8
		}
		return bitmap + 4*(rows+1) + c.numbers*8 + (c.numbers+7)/8
	}
	return bitmap + 8*rows
}

// describeJSON names a value in an error.
func describeJSON(text []byte) string {
	if k := kindOf(text); k != jsonList && k != jsonText {
		return k.String()
	}
	return "an array"
}
