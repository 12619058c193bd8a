package format

import (
	"bytes"
	"strconv"
)

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
