package jsontext

import "bytes"

// Objects walks the objects of a text that are its rows: an object, an array of objects, or lines of them. The text is
// valid JSON of one of these forms.
type Objects struct {
	text []byte
	i    int // of the next byte
	left int // rows that are left
}

// Walk begins at the first of the text's rows.
func Walk(text []byte, rows int) Objects {
	return Objects{text: text, left: rows, i: first(text)}
}

// IsArray reports whether the text is an array, and not an object or lines of objects.
func IsArray(text []byte) bool { return text[first(text)] == '[' }

// first returns the place of the first bracket, behind space and a byte order mark.
func first(text []byte) int { return bytes.IndexAny(text, "{[") }

// Next returns the place of the brace that closes the next row, and whether the row has no keys; −1 after the last row.
func (o *Objects) Next() (end int, empty bool) {
	switch {
	case o.left == 0:
		return -1, false
	case o.left == 1 && o.text[o.i] == '{': // the last one ends where the text does
		end = bytes.LastIndexByte(o.text, '}')
	default:
		end = o.close()
	}
	o.left--
	o.i = end + 1
	before := bytes.TrimRight(o.text[:end], " \t\r\n")
	return end, before[len(before)-1] == '{'
}

// close passes one object, and returns the place of its last brace.
func (o *Objects) close() int {
	depth := 0
	for i := o.i; ; i++ {
		switch o.text[i] {
		case '"':
			i = o.quote(i)
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
}

// quote returns the place of the quote that ends the string at i.
func (o *Objects) quote(i int) int {
	for i++; ; i++ {
		switch o.text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
}
