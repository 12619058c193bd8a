package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
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
// objects, and values of several types under one key, are kept as their JSON text in a utf8 column; so is a key that an object has twice, as the object {"a":1,"a":2}.
// A column of nothing but null is float64.
// 1e999 is read as +Inf, as everywhere, and then is an invalid row, not an invalid message. So are NaN, Infinity and -Infinity, which are no
// JSON: Python's json.dumps writes them unless it is told not to.
//
// What is within objects and arrays becomes a column too where Config names it by a path, in addition to the text of
// the whole.
//
// A value is read twice: the first pass checks it and finds out which columns there are, of which types and sizes,
// so that the second allocates once, and exactly (jsonfill.go). One row of numbers is read
// once (jsonfill.go).

// The codes of JSON.
const (
	CodeJSONInvalid  = "json_invalid"   // not JSON, not UTF-8, or twice in one row a key within which there are columns
	CodeJSONType     = "json_type"      // a row that is no object
	CodeJSONTooLarge = "json_too_large" // more rows, columns, nesting or cells than the limits
)

// jsonFormat is JSON as the value of a message.
var jsonFormat = spec{
	name:        JSON,
	title:       "JSON",
	looks:       looksJSON,
	contentType: "json",
	decoder:     func(c Config) valueDecoder { return newJSONDecoder(c) },
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

// jsonDecoder reads JSON values.
type jsonDecoder struct {
	config   Config
	columns  []string // names and paths: Config.Columns, and with Only those that a message may lack
	wants    []jsonWant
	decimals map[string]bool // paths of numbers that are written as text
	last     atomic.Pointer[jsonSchema]
	tables   jsonTables

	whole *jsonDecoder // of the first values that lack a column that is wanted: it shows all there is; nil: this one does
	lacks atomic.Int64 // values that lack one
}

func newJSONDecoder(c Config) *jsonDecoder {
	d := &jsonDecoder{config: c, columns: c.Columns}
	if c.Only { // otherwise they are columns anyway
		d.columns = slices.Concat(c.Columns, c.Also)
	}
	for i, name := range d.columns {
		d.wants = append(d.wants, jsonWant{name: i, rest: name})
	}
	if c.Only && !c.Nested {
		d.whole = newJSONDecoder(Config{Columns: c.Columns, Nested: true})
	}
	return d
}

func (d *jsonDecoder) decode(ctx context.Context, value []byte, a *Arena) (arrow.Record, error) {
	t := d.tables.take(d)
	t.limits.Decoded = a.budget(t.limits.Decoded)
	if err := t.measure(value); err != nil {
		return nil, err
	}
	need := t.first.need
	if !t.again() {
		if !t.choose() && d.whole != nil && (len(t.out) == 0 || d.lacks.Add(1) <= mostShown) {
			return d.whole.decode(ctx, value, a)
		}
		need = t.bytes()
		t.remember(d, need)
	}
	if need > t.limits.Decoded {
		return nil, errorf(CodeJSONTooLarge, "%d rows of %d columns take %d bytes, at most %d are held; send fewer rows per message",
			len(t.rows), len(t.out), need, t.limits.Decoded)
	}
	a.spend(need + int64(len(t.out))*jsonColumnBytes + int64(len(t.rows))*jsonRowBytes)
	rec := d.record(t, value, a)
	d.tables.give(t) // not after a panic
	return rec, nil
}

// mostShown is how many values that lack a column that is wanted are read as a whole. By then a user who has misspelt
// its name knows it, because an error shows what there is; keys that are missing now and then should cost nothing.
const mostShown = 1000

// What the objects of a column and of a row take, in addition to the values.
const (
	jsonColumnBytes = 700
	jsonRowBytes    = 8
)

// errJSON is of text that is not JSON; jsonFault says where.
var errJSON = errorf(CodeJSONInvalid, "%w", errors.New("not JSON"))

// measure is the first pass. An error of syntax says where it is, and comes before all others.
func (t *jsonTable) measure(value []byte) error {
	from := len(value) - len(bytes.TrimLeft(bytes.TrimPrefix(value, []byte(byteOrderMark)), jsonSpace))
	value = bytes.TrimRight(value, jsonSpace)
	if from >= len(value) {
		return errorf(CodeEmpty, "nothing but space; send an object or an array of objects")
	}
	if !utf8.Valid(value) {
		return notUTF8(value)
	}
	err := t.measureRows(&cursor{b: value, i: from})
	if err == nil {
		return nil
	}
	if fault := jsonFault(value[from:]); fault != nil {
		return fault
	}
	return err
}

// notUTF8 says where a value is not UTF-8.
func notUTF8(value []byte) *Error {
	at := 0
	for {
		r, size := utf8.DecodeRune(value[at:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		at += size
	}
	where := "outside of the keys and their values"
	for c := (cursor{b: value}); c.i < at; c.i++ {
		from := c.i
		if value[from] != '"' {
			continue
		}
		if !c.checkString() {
			break
		}
		if key := value[from+1 : c.i-1]; c.i > at && c.peek() == ':' {
			where = fmt.Sprintf("in key %q", clip(strings.ToValidUTF8(string(key), "\ufffd")))
		} else if c.peek() == ':' {
			where = fmt.Sprintf("in the value of key %q", clip(string(key)))
		}
	}
	return errorf(CodeJSONInvalid, "byte %d, %#x, is not UTF-8, %s; write JSON as UTF-8", at, value[at], where)
}

// measureRows is the first pass over the rows: an object is one, an array has one in each element, and lines are a
// row each.
func (t *jsonTable) measureRows(c *cursor) error {
	if c.b[c.i] == '[' {
		return t.measureArray(c)
	}
	if err := t.measureRow(c); err != nil {
		return err
	}
	if c.peek(); c.i == len(c.b) {
		return nil
	}
	return t.measureLines(c)
}

func (t *jsonTable) measureArray(c *cursor) error {
	c.i++
	if c.peek() == ']' {
		c.i++
	} else {
		for more := true; more; c.i++ {
			c.peek()
			if err := t.measureRow(c); err != nil {
				return err
			}
			switch c.peek() {
			case ',':
			case ']':
				more = false
			default:
				return errJSON
			}
		}
	}
	if c.peek(); c.i < len(c.b) {
		return notAnObject(0, "an array") // if there are lines
	}
	return nil
}

// measureLines goes on after the first row, which is not the only one: each is on a line of its own.
func (t *jsonTable) measureLines(c *cursor) error {
	end := t.rows[0].to
	for {
		at := t.rows[len(t.rows)-1]
		if bytes.IndexByte(at.of(c.b), '\n') >= 0 || c.i < len(c.b) && bytes.IndexByte(c.b[end:c.i], '\n') < 0 {
			return errJSON
		}
		if c.i == len(c.b) {
			return nil
		}
		if err := t.measureRow(c); err != nil {
			return err
		}
		end = int32(c.i)
		c.peek()
	}
}

// measureRow is the first pass over the row that begins here.
func (t *jsonTable) measureRow(c *cursor) error {
	row, from := len(t.rows), c.i
	if from == len(c.b) {
		return errJSON
	}
	if int64(row) >= t.limits.Rows {
		return errorf(CodeJSONTooLarge, "more than %d rows; send fewer a message", t.limits.Rows)
	}
	if c.b[from] != '{' {
		return t.noRow(c, row)
	}
	if err := t.object(c, &t.top, row, 0); err != nil {
		return err
	}
	t.rows = append(t.rows, span{int32(from), int32(c.i)})
	return nil
}

// noRow refuses what stands in the place of a row.
func (t *jsonTable) noRow(c *cursor, row int) error {
	kind := jsonText
	if c.b[c.i] != '[' {
		var ok bool
		if kind, ok = c.scalar(); !ok {
			return errJSON
		}
	}
	if kind == jsonText {
		return notAnObject(row, "an array")
	}
	return notAnObject(row, kind.String())
}

func notAnObject(row int, what string) *Error {
	return errorf(CodeJSONType, "row %d is %s; a row is an object, such as {\"x\": [1, 2]}", row, what)
}

// jsonDepth bounds the nesting of a value.
const jsonDepth = 64

// object is the first pass over an object.
func (t *jsonTable) object(c *cursor, l *jsonLevel, row, depth int) *Error {
	c.i++
	if c.peek() == '}' {
		c.i++
		return nil
	}
	var last *jsonColumn
	for {
		col, ok := t.checkKey(c, l, last)
		if !ok {
			return errJSON
		}
		if col.message != t.message {
			if t.meet(col); len(t.met) > t.limits.Fields {
				return errorf(CodeJSONTooLarge, "row %d: more than %d keys; send numbers as one array", row, t.limits.Fields)
			}
		}
		again := col.row == row
		col.row = row
		if err := t.value(c, col, row, depth); err != nil {
			return err
		}
		if again {
			if err := col.again(row); err != nil {
				return err
			}
		}
		last = col
		switch c.peek() {
		case ',':
			c.i++
			c.peek()
		case '}':
			c.i++
			return nil
		default:
			return errJSON
		}
	}
}

// checkKey passes a key and its colon, and returns its column.
func (t *jsonTable) checkKey(c *cursor, l *jsonLevel, last *jsonColumn) (col *jsonColumn, ok bool) {
	if col = l.first; last != nil {
		col = last.after
	}
	if col != nil && bytes.HasPrefix(c.b[c.i:], col.key) {
		c.i += len(col.key)
	} else {
		from := c.i
		if from >= len(c.b) || c.b[from] != '"' || !c.checkString() {
			return nil, false
		}
		col = t.column(l, last, c.b[from:c.i])
	}
	if c.peek() != ':' {
		return nil, false
	}
	c.i++
	c.peek()
	return col, c.i < len(c.b)
}

// value is the first pass over a value of a column.
func (t *jsonTable) value(c *cursor, col *jsonColumn, row, depth int) *Error {
	from := c.i
	var kind jsonKind
	switch b := c.b[from]; b {
	case '{':
		kind = jsonText
		col.objects++
		if err := t.measureObject(c, col, row, depth+1); err != nil {
			return err
		}
	case '[':
		var err *Error
		if kind, err = t.array(c, col, row, depth+1); err != nil {
			return err
		}
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'N', 'I':
		kind = jsonNumber
		whole, ok := t.number(c, col, row)
		if !ok {
			return errJSON
		}
		if !whole {
			col.whole = false
		} else if col.whole {
			col.integer(c.b[from:c.i])
		}
	default:
		var ok bool
		if kind, ok = c.scalar(); !ok {
			return errJSON
		}
		if kind == jsonNull {
			return nil
		}
	}
	if kind == jsonString && col.decimal {
		n := cursor{b: c.b[from+1 : c.i-1]}
		if t.isNumber(&n, col, row) {
			kind, col.whole = jsonNumber, false
		}
	}
	if kind == jsonString {
		col.text += int64(c.i - from - 2)
	}
	col.raw += int64(c.i - from)
	col.count++
	col.become(kind)
	return nil
}

// number passes a number of a column.
func (t *jsonTable) number(c *cursor, col *jsonColumn, row int) (whole, ok bool) {
	if row > 0 {
		return c.checkNumber()
	}
	col.at = len(t.first.numbers)
	return t.first.number(c)
}

// isNumber reports whether all of the text is a number of a column.
func (t *jsonTable) isNumber(c *cursor, col *jsonColumn, row int) bool {
	if len(c.b) == 0 {
		return false
	}
	_, ok := t.number(c, col, row)
	return ok && c.i == len(c.b)
}

// scalar passes a string, a word or a number.
func (c *cursor) scalar() (kind jsonKind, ok bool) {
	switch c.b[c.i] {
	case '"':
		return jsonString, c.checkString()
	case 't', 'f':
		return jsonBool, c.checkWord()
	case 'n':
		return jsonNull, c.checkWord()
	}
	_, ok = c.checkNumber()
	return jsonNumber, ok
}

// become takes a kind of value into the type of the column. Values of several types are kept as they stand: whether one of
// them is a fault is for the reader of the column to say, and then of its row alone.
func (c *jsonColumn) become(kind jsonKind) {
	switch c.kind {
	case kind:
	case jsonNull:
		c.kind = kind
	default:
		c.kind = jsonText
	}
}

// again is about a key that its object has had before: all its values are kept, as an object that has the key as often. Within such values nothing
// can be told apart.
func (c *jsonColumn) again(row int) *Error {
	if c.inner != nil && len(c.inner.wants) > 0 {
		return errorf(CodeJSONInvalid, "row %d: key %q is there twice, and what is within it is read", row, clip(c.name))
	}
	c.kind = jsonText
	c.raw += int64(2*len(c.key) + len("{:,:}"))
	return nil
}

// integer finds out whether the column needs integers. Up to 15 digits float64 is exact.
func (c *jsonColumn) integer(value []byte) {
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

// measureObject is the first pass over an object within a row.
func (t *jsonTable) measureObject(c *cursor, col *jsonColumn, row, depth int) *Error {
	if depth > jsonDepth {
		return errorf(CodeJSONTooLarge, "row %d: nested deeper than %d", row, jsonDepth)
	}
	if col != nil && col.inner != nil {
		return t.object(c, &col.inner.object, row, depth)
	}
	c.i++
	if c.peek() == '}' {
		c.i++
		return nil
	}
	for {
		if c.i >= len(c.b) || c.b[c.i] != '"' || !c.checkString() || c.peek() != ':' {
			return errJSON
		}
		c.i++
		c.peek()
		if _, err := t.anything(c, row, depth); err != nil {
			return err
		}
		switch c.peek() {
		case ',':
			c.i++
			c.peek()
		case '}':
			c.i++
			return nil
		default:
			return errJSON
		}
	}
}

// array is the first pass over an array of a column. It is a list if it holds nothing but numbers and null.
func (t *jsonTable) array(c *cursor, col *jsonColumn, row, depth int) (jsonKind, *Error) {
	if depth > jsonDepth {
		return 0, errorf(CodeJSONTooLarge, "row %d: nested deeper than %d", row, jsonDepth)
	}
	var places []jsonPlace
	if col != nil && col.inner != nil {
		places = col.inner.places
	}
	c.i++
	keeps := row == 0 && col != nil // its numbers, one behind the other
	if keeps {
		col.at = len(t.first.numbers)
	}
	n, list, nulls := 0, true, false
	for more := c.peek() != ']'; more; n++ {
		var kind jsonKind
		var err *Error
		switch c.peek(); {
		case len(places) > 0 && places[0].at == n:
			kind, err = t.element(c, places[0].column, row, depth)
			places = places[1:]
		case keeps && c.i < len(c.b) && isNumberStart(c.b[c.i]):
			if _, ok := t.first.number(c); !ok {
				err = errJSON
			}
			kind = jsonNumber
		default:
			kind, err = t.anything(c, row, depth)
		}
		if err != nil {
			return 0, err
		}
		list = list && kind <= jsonNumber
		nulls = nulls || kind == jsonNull
		switch c.peek() {
		case ',':
			c.i++
		case ']':
			more = false
		default:
			return 0, errJSON
		}
	}
	c.i++
	if !list {
		return jsonText, nil
	}
	if col != nil {
		col.listed(n, nulls)
	}
	return jsonList, nil
}

// element is the first pass over an element that has a column.
func (t *jsonTable) element(c *cursor, col *jsonColumn, row, depth int) (jsonKind, *Error) {
	if c.i >= len(c.b) {
		return 0, errJSON
	}
	if col.message != t.message {
		t.meet(col)
	}
	first := c.b[c.i]
	if err := t.value(c, col, row, depth); err != nil {
		return 0, err
	}
	switch {
	case first == 'n':
		return jsonNull, nil
	case isNumberStart(first):
		return jsonNumber, nil
	}
	return jsonText, nil
}

// anything passes a value that has no column.
func (t *jsonTable) anything(c *cursor, row, depth int) (jsonKind, *Error) {
	if c.i >= len(c.b) {
		return 0, errJSON
	}
	switch c.b[c.i] {
	case '{':
		return jsonText, t.measureObject(c, nil, row, depth+1)
	case '[':
		_, err := t.array(c, nil, row, depth+1)
		return jsonText, err
	}
	kind, ok := c.scalar()
	if !ok {
		return 0, errJSON
	}
	return kind, nil
}

// listed takes a list of n numbers and nulls into the column.
func (c *jsonColumn) listed(n int, nulls bool) {
	c.nulls = c.nulls || nulls
	if c.numbers == 0 && c.size == 0 {
		c.size = n
	}
	if c.size != n || n == 0 {
		c.size = -1
	}
	c.numbers += int64(n)
}

// bytes is what the columns of the record will take.
func (t *jsonTable) bytes() int64 { return outBytes(t.out, int64(len(t.rows))) }

func outBytes(out []jsonOut, rows int64) (need int64) {
	for i := range out {
		switch o := &out[i]; {
		case len(o.within) > 0:
			need += outBytes(o.within, rows)
		default:
			need += o.column.bytes(rows)
		}
	}
	return need
}

func (c *jsonColumn) bytes(rows int64) int64 {
	bitmap := (rows + 7) / 8
	switch c.kind {
	case jsonBool:
		return 2 * bitmap
	case jsonString:
		return bitmap + 4*(rows+1) + c.text
	case jsonText:
		return bitmap + 4*(rows+1) + c.raw
	case jsonList:
		if c.size > 0 {
			return bitmap + rows*int64(c.size)*8 + (rows*int64(c.size)+7)/8
		}
		return bitmap + 4*(rows+1) + c.numbers*8 + (c.numbers+7)/8
	}
	return bitmap + 8*rows
}
