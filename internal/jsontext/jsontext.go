// Package jsontext writes parts of JSON, and finds the places in JSON text where keys can be added.
//
// AppendString, AppendFloat32 and AppendFloat64 write values; Objects walks the rows of a text that is known to be valid.
// Nothing here checks JSON.
package jsontext

import (
	"bytes"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"
)

// Null is the text of a value that is missing.
const Null = "null"

// AppendFloat32 appends the shortest digits that float32 reads back as f; null if f is not finite, because JSON has no
// such number.
func AppendFloat32(dst []byte, f float32) []byte { return appendFloat(dst, float64(f), 32) }

// AppendFloat64 is AppendFloat32 for float64.
func AppendFloat64(dst []byte, f float64) []byte { return appendFloat(dst, f, 64) }

// least and most are between which sizes numbers are written without an exponent.
const least, most = 1e-6, 1e16

// MostFloat32 is the largest number of bytes of what AppendFloat32 appends: a sign, 16 digits and a point, or a sign, nine
// digits, a point and an exponent.
const MostFloat32 = 18

// appendFloat appends any number.
func appendFloat(dst []byte, f float64, bits int) []byte {
	abs := math.Abs(f)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return append(dst, Null...)
	case abs == 0 || abs >= least && abs < most:
		return strconv.AppendFloat(dst, f, 'f', -1, bits)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, bits)
	if n := len(dst); n >= 4 && dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') { // e-09 to e-9
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// plain are the bytes of a string that stand for themselves, apart from those of runes beyond ASCII.
var plain = func() (t [256]bool) {
	for i := ' '; i < utf8.RuneSelf; i++ {
		t[i] = i != '"' && i != '\\'
	}
	return t
}()

// MostEscaped is the largest number of bytes that AppendString appends for one.
const MostEscaped = len(`\u0000`)

// escaped is how many bytes AppendString appends for a byte.
var escaped = func() (t [256]uint8) {
	for b := range t {
		switch {
		case plain[b], b >= utf8.RuneSelf:
			t[b] = 1
		case b == '"', b == '\\', b == '\n', b == '\r', b == '\t':
			t[b] = 2
		default:
			t[b] = uint8(MostEscaped)
		}
	}
	return t
}()

// StringSize is the number of bytes that AppendString appends.
func StringSize(s string) int {
	n, all := 2, byte(0)
	for i := range len(s) {
		n += int(escaped[s[i]])
		all |= s[i]
	}
	if all < utf8.RuneSelf || utf8.ValidString(s) {
		return n
	}
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				n += len("\ufffd") - 1
			}
		}
	}
	return n
}

// AppendString appends s with quotes. Bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		if plain[s[i]] {
			i++
			continue
		}
		if s[i] >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[from:i]...)
		switch b := s[i]; b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

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

// Member is a member of an object, or an element of an array.
type Member struct {
	Key      []byte // with its quotes; nil for an element
	From, To int    // place of the value, and of what comes behind it
}

// Members returns what the object or array that begins at a place of the text holds, in order. The text is valid JSON; NaN and Infinity may
// stand for numbers.
func Members(text []byte, at int) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		object, i := text[at] == '{', at+1
		for {
			if i = space(text, i); text[i] == ',' {
				i = space(text, i+1)
			}
			if text[i] == '}' || text[i] == ']' {
				return
			}
			var m Member
			if object {
				end := value(text, i)
				m.Key = text[i:end]
				i = space(text, space(text, end)+1) // the colon
			}
			m.From, m.To = i, value(text, i)
			if i = m.To; !yield(m) {
				return
			}
		}
	}
}

// Close returns the place of the bracket that closes a value that is an object or array, and whether there is nothing in it.
func Close(text []byte, m Member) (end int, empty bool) {
	end = m.To - 1
	return end, space(text, m.From+1) == end
}

// space returns the place of the first byte from i on that is not space.
func space(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n' {
		i++
	}
	return i
}

// value returns the place behind the value at i.
func value(text []byte, i int) int {
	o := Objects{text: text}
	for depth := 0; ; i++ {
		switch text[i] {
		case '"':
			i = o.quote(i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ' ', '\t', '\r', '\n', ',', ':':
			continue
		default:
			for i++; i < len(text) && !ends(text[i]); i++ {
			}
			i--
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// ends reports whether a byte ends a number or a name.
func ends(b byte) bool { return b <= ' ' || b == ',' || b == '}' || b == ']' }
