package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unsafe"
)

// span is where the text of a row stands in a value.
type span struct{ from, to int32 }

func (s span) of(value []byte) []byte { return value[s.from:s.to] }

const (
	jsonSpace     = " \t\r\n"
	byteOrderMark = "\xef\xbb\xbf"
)

// cursor walks JSON text. Its methods that return ok check what they pass, and take nothing that encoding/json would
// not, except NaN and the infinities; the others are for text that was checked, so they look for ends, not for faults.
type cursor struct {
	b []byte
	i int
}

// peek returns the next byte that is no space; 0 at the end.
func (c *cursor) peek() byte {
	for ; c.i < len(c.b); c.i++ {
		if b := c.b[c.i]; b > ' ' {
			return b
		} else if b != ' ' && b != '\n' && b != '\t' && b != '\r' {
			return 0
		}
	}
	return 0
}

// plain are the bytes of a string that stand for themselves.
var plain = func() (t [256]bool) {
	for i := range t {
		t[i] = i >= ' ' && i != '"' && i != '\\'
	}
	return t
}()

// checkString passes a string with its quotes.
func (c *cursor) checkString() (ok bool) {
	b := c.b
	for i := c.i + 1; i < len(b); i++ {
		if plain[b[i]] {
			continue
		}
		switch b[i] {
		case '"':
			c.i = i + 1
			return true
		case '\\':
			if i++; i >= len(b) {
				return false
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i += 4; i >= len(b) || !isHex(b[i-3]) || !isHex(b[i-2]) || !isHex(b[i-1]) || !isHex(b[i]) {
					return false
				}
			default:
				return false
			}
		default:
			return false
		}
	}
	return false
}

func isHex(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
}

func isDigit(b byte) bool { return b-'0' <= 9 }

// isNumberStart reports whether a number begins with b: NaN and Infinity are numbers here.
func isNumberStart(b byte) bool { return isDigit(b) || b == '-' || b == 'N' || b == 'I' }

// digits passes digits from i on.
func (c *cursor) digits(i int) int {
	for i < len(c.b) && isDigit(c.b[i]) {
		i++
	}
	return i
}

// checkNumber passes a number, and reports whether it is written as an integer.
func (c *cursor) checkNumber() (whole, ok bool) {
	b, i := c.b, c.i
	if b[i] == '-' {
		i++
	}
	from := i
	if i = c.digits(i); i == from {
		_, ok = c.notFinite()
		return false, ok
	}
	if b[from] == '0' && i > from+1 {
		return false, false
	}
	whole = true
	if i < len(b) && b[i] == '.' {
		from, whole = i+1, false
		if i = c.digits(from); i == from {
			return false, false
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from, whole = i, false
		if i = c.digits(i); i == from {
			return false, false
		}
	}
	c.i = i
	return whole, true
}

// checkWord passes true, false or null.
func (c *cursor) checkWord() (ok bool) {
	for _, word := range [...]string{"true", "false", "null"} {
		if len(c.b)-c.i >= len(word) && string(c.b[c.i:c.i+len(word)]) == word {
			c.i += len(word)
			return true
		}
	}
	return false
}

// more moves to the next element of an object or array, past the comma, or past end and reports that there is none.
func (c *cursor) more(end byte) bool {
	b := c.peek()
	if b == ',' {
		c.i++
		b = c.peek()
	}
	if b == end {
		c.i++
		return false
	}
	return true
}

// pass moves past a value.
func (c *cursor) pass() {
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

// jsonFault says why a value, from its first byte that is no space on, is not JSON; nil: it is, apart from what notFinite takes.
func jsonFault(whole []byte) error {
	whole = onlyFinite(whole)
	if json.Valid(whole) {
		return nil
	}
	row := 0
	for line := range bytes.Lines(whole) {
		if len(bytes.Trim(line, jsonSpace)) == 0 {
			continue
		}
		if !json.Valid(line) {
			if row == 0 { // then it is no row a line; say where the whole breaks
				return errorf(CodeJSONInvalid, "%w", syntaxError(whole))
			}
			return errorf(CodeJSONInvalid, "row %d: %w", row, syntaxError(line))
		}
		row++
	}
	return nil
}

// onlyFinite returns text with [] and spaces in the place of what notFinite takes outside of strings, so that faults keep their places. A
// 0 would hide the fault of what stands before it, as in −NaN.
func onlyFinite(text []byte) []byte {
	out := bytes.Clone(text)
	for c := (cursor{b: text}); c.i < len(text); {
		from := c.i
		if text[from] == '"' && c.checkString() {
			continue
		}
		if _, ok := c.notFinite(); !ok {
			c.i++
			continue
		}
		copy(out[from:c.i], "[]       ")
	}
	return out
}

// syntaxError says what json.Valid only denies.
func syntaxError(b []byte) error {
	var raw json.RawMessage
	err := json.Unmarshal(b, &raw)
	var se *json.SyntaxError
	if !errors.As(err, &se) {
		return err
	}
	return fmt.Errorf("%w at byte %d", err, se.Offset)
}
