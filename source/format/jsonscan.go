package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
	"unsafe"
)

// span is where the text of a row stands in a value.
type span struct{ from, to int32 }

func (s span) of(value []byte) []byte { return value[s.from:s.to] }

// jsonRows cuts value into the texts of its rows: an object is one row, an array has one in each
// element, and lines are a row each. It calls visit for each in order. All that visit sees is
// valid JSON; that a row is an object is for visit to check.
func jsonRows(value []byte, visit func(row int, at span) error) error {
	from := len(value) - len(bytes.TrimLeft(bytes.TrimPrefix(value, []byte(byteOrderMark)), jsonSpace))
	value = bytes.TrimRight(value, jsonSpace)
	if from >= len(value) {
		return errorf(CodeEmpty, "nothing but space; send an object or an array of objects")
	}
	if !utf8.Valid(value) {
		return errorf(CodeJSONInvalid, "not UTF-8")
	}
	if !json.Valid(value[from:]) {
		return jsonLines(value, from, visit)
	}
	if value[from] != '[' {
		return visit(0, span{int32(from), int32(len(value))})
	}
	c := cursor{b: value, i: from + 1}
	for row := 0; c.more(']'); row++ {
		at := c.i
		c.value()
		if err := visit(row, span{int32(at), int32(c.i)}); err != nil {
			return err
		}
	}
	return nil
}

func jsonLines(value []byte, from int, visit func(row int, at span) error) error {
	row, whole := 0, value[from:]
	for line := range bytes.Lines(whole) {
		at := span{int32(from), int32(from + len(line))}
		if from += len(line); len(bytes.Trim(line, jsonSpace)) == 0 {
			continue
		}
		at.from += int32(len(line) - len(bytes.TrimLeft(line, jsonSpace)))
		if !json.Valid(line) {
			if row == 0 { // then it is no row a line; say where the whole breaks
				return errorf(CodeJSONInvalid, "%w", syntaxError(whole))
			}
			return errorf(CodeJSONInvalid, "row %d: %w", row, syntaxError(line))
		}
		if err := visit(row, at); err != nil {
			return err
		}
		row++
	}
	return nil
}

const (
	jsonSpace     = " \t\r\n"
	byteOrderMark = "\xef\xbb\xbf"
)

// syntaxError says what json.Valid only denies.
func syntaxError(b []byte) error {
	var raw json.RawMessage
	err := json.Unmarshal(b, &raw)
	var se *json.SyntaxError
	if !errors.As(err, &se) {
		return err
	}
	if at := b[min(max(se.Offset-1, 0), int64(len(b))):]; bytes.HasPrefix(at, []byte("NaN")) || bytes.HasPrefix(at, []byte("Inf")) || bytes.HasPrefix(at, []byte("inf")) {
		return fmt.Errorf("%w at byte %d: JSON has no NaN and no infinity, write null", err, se.Offset)
	}
	return fmt.Errorf("%w at byte %d", err, se.Offset)
}

// cursor walks JSON that json.Valid has accepted, so it looks for ends, not for faults.
type cursor struct {
	b []byte
	i int
}

func (c *cursor) space() {
	for c.b[c.i] == ' ' || c.b[c.i] == '\n' || c.b[c.i] == '\t' || c.b[c.i] == '\r' {
		c.i++
	}
}

// more moves to the next element of an object or array, past the comma, or past end and reports
// that there is none.
func (c *cursor) more(end byte) bool {
	c.space()
	if c.b[c.i] == ',' {
		c.i++
		c.space()
	}
	if c.b[c.i] == end {
		c.i++
		return false
	}
	return true
}

// pair takes a key, quotes included, and the text of its value.
func (c *cursor) pair() (key, value []byte) {
	key = c.value()
	c.space()
	c.i++ // the colon
	c.space()
	return key, c.value()
}

// value takes the text of the value at the cursor.
func (c *cursor) value() []byte {
	start := c.i
	switch c.b[c.i] {
	case '"':
		c.text()
	case '{', '[':
		c.composite()
	default: // a number or a word ends at a comma, a closing bracket, space or the end
		for c.i < len(c.b) && c.b[c.i] > ' ' && c.b[c.i] != ',' && c.b[c.i] != ']' && c.b[c.i] != '}' {
			c.i++
		}
	}
	return c.b[start:c.i]
}

func (c *cursor) text() {
	for c.i++; c.b[c.i] != '"'; c.i++ {
		if c.b[c.i] == '\\' {
			c.i++
		}
	}
	c.i++
}

func (c *cursor) composite() {
	for depth := 0; ; {
		switch c.b[c.i] {
		case '"':
			c.text()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if c.i++; depth == 0 {
			return
		}
	}
}

// tooDeep reports whether brackets nest deeper than limit, without recursion.
func tooDeep(text []byte, limit int) bool {
	depth := 0
	c := cursor{b: text}
	for c.i < len(text) {
		switch text[c.i] {
		case '"':
			c.text()
			continue
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		}
		c.i++
	}
	return false
}

// unquote returns the text of a JSON string, which aliases it unless it has escapes.
func unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return aliased(inner)
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		panic("format: internal error: unquoting a valid JSON string: " + err.Error())
	}
	return s
}

// aliased returns b as a string without a copy, for calls that do not keep it.
func aliased(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
