// Package jsontext writes parts of JSON, and finds the places in JSON text where keys can be added.
//
// AppendString, AppendFloat32 and AppendFloat64 write values; Objects walks the rows of a text that is known to be valid.
// Nothing here checks JSON.
package jsontext

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// Null is the text of a value that is missing.
const Null = "null"

// AppendFloat32 appends the shortest digits that float32 reads back as f; null if f is not finite, because JSON has no
// such number.
func AppendFloat32(dst []byte, f float32) []byte {
	b := math.Float32bits(f)
	exponent, rest := int(b>>23&0xff), b&(1<<23-1)
	if abs := math.Abs(float64(f)); abs >= least && exponent <= bias32 && rest != 0 {
		return appendShort(appendSign(dst, f < 0), uint64(rest|1<<23), exponent-bias32)
	}
	return appendFloat(dst, float64(f), 32)
}

// AppendFloat64 is AppendFloat32 for float64.
func AppendFloat64(dst []byte, f float64) []byte {
	b := math.Float64bits(f)
	exponent, rest := int(b>>52&0x7ff), b&(1<<52-1)
	if abs := math.Abs(f); abs >= least && exponent <= bias64 && rest != 0 {
		return appendShort(appendSign(dst, f < 0), rest|1<<52, exponent-bias64)
	}
	return appendFloat(dst, f, 64)
}

// The exponents, as they are stored, of floats whose last bit is 1.
const bias32, bias64 = 127 + 23, 1023 + 52

func appendSign(dst []byte, negative bool) []byte {
	if negative {
		return append(dst, '-')
	}
	return dst
}

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
