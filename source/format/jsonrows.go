package format

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
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
