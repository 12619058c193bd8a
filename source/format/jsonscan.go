package format

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
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

// exactPowers are the powers of ten that float64 holds exactly.
var exactPowers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// numberOrText is number for one of checked text that may stand in quotes.
func (c *cursor) numberOrText() float64 {
	if c.b[c.i] != '"' {
		x, _, _ := c.number()
		return x
	}
	c.i++
	x, _, _ := c.number()
	c.i++
	return x
}

// number reads a number as the nearest float64, and passes it. One beyond float64 is an infinity. It reports as checkNumber does
// whether the number is written as an integer, and whether it is one.
//
// Most numbers have at most 15 digits and a small exponent. Then both the digits and the power of ten are exact
// in float64, so that their product or quotient is rounded once (Clinger). Up to 19 digits are divided as integers.
// All others are left to strconv.
func (c *cursor) number() (x float64, whole, ok bool) {
	b, from := c.b, c.i
	i := from
	negative := b[i] == '-'
	if negative {
		i++
	}
	first := i
	var mantissa uint64
	for ; i < len(b) && isDigit(b[i]); i++ {
		mantissa = mantissa*10 + uint64(b[i]-'0')
	}
	if i == first {
		x, ok = c.notFinite()
		return x, false, ok
	}
	if b[first] == '0' && i > first+1 {
		return 0, false, false
	}
	digits, power, whole := i-first, 0, true
	if i < len(b) && b[i] == '.' {
		point := i + 1
		if mantissa, i = fraction(b, point, mantissa); i == point {
			return 0, false, false
		}
		digits, power, whole = digits+i-point, point-i, false
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		var exponent int
		if exponent, i = readExponent(b, i+1); i < 0 {
			return 0, false, false
		}
		power, whole = power+exponent, false
	}
	c.i = i
	// 19 digits fit into 64 bits; leading zeros count as digits here, which only leaves more to strconv.
	switch {
	case digits <= 19 && mantissa <= 1<<53 && power >= -22 && power <= 0:
		x = float64(mantissa) / exactPowers[-power]
	case digits <= 19 && mantissa <= 1<<53 && power > 0 && power <= 22:
		x = float64(mantissa) * exactPowers[power]
	case digits <= 19 && power >= -19 && power <= 0:
		x = quotient(mantissa, wholePowers[-power])
	default:
		x, _ = strconv.ParseFloat(aliased(b[from:i]), 64)
		return x, whole, true
	}
	if negative {
		return -x, whole, true
	}
	return x, whole, true
}

// notFinite passes NaN, Infinity or -Infinity, which are no JSON, but what Python's json.dumps writes for them.
func (c *cursor) notFinite() (x float64, ok bool) {
	switch rest := c.b[c.i:]; {
	case bytes.HasPrefix(rest, []byte("NaN")):
		c.i += len("NaN")
		return math.NaN(), true
	case bytes.HasPrefix(rest, []byte("Infinity")):
		c.i += len("Infinity")
		return math.Inf(1), true
	case bytes.HasPrefix(rest, []byte("-Infinity")):
		c.i += len("-Infinity")
		return math.Inf(-1), true
	}
	return 0, false
}

// fraction appends the digits from i on to those of a mantissa, and returns where they end.
func fraction(b []byte, i int, mantissa uint64) (uint64, int) {
	for ; len(b)-i >= 8; i += 8 {
		eight := binary.LittleEndian.Uint64(b[i:])
		if !areDigits(eight) {
			break
		}
		mantissa = mantissa*1e8 + ofDigits(eight)
	}
	for ; i < len(b) && isDigit(b[i]); i++ {
		mantissa = mantissa*10 + uint64(b[i]-'0')
	}
	return mantissa, i
}

// areDigits reports whether eight bytes are digits: their upper halves are 3, also after 6 was added to the lower ones.
func areDigits(eight uint64) bool {
	const upper, six = 0xf0f0f0f0f0f0f0f0, 0x0606060606060606
	return eight&upper|(eight+six)&upper>>4 == 0x3333333333333333
}

// ofDigits is the number that eight digits are, of which the first is in the lowest byte: neighbours become pairs, these become fours,
// and these the number.
func ofDigits(eight uint64) uint64 {
	eight -= 0x3030303030303030
	eight = eight*10 + eight>>8
	const odd = 0x000000ff000000ff
	return (eight&odd*(100+1000000<<32) + eight>>16&odd*(1+10000<<32)) >> 32
}

// wholePowers are the powers of ten that uint64 holds.
var wholePowers = [...]uint64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19}

// quotient is a/b, neither of which is 0, as the nearest float64; of two that are equally near the even one.
func quotient(a, b uint64) float64 {
	up, down := bits.LeadingZeros64(a), bits.LeadingZeros64(b)
	high, low, d := a<<up, uint64(0), b<<down
	scale := down - up - 64 // a/b is 2^scale · high:low/d
	if high >= d {
		high, low = high>>1, high<<63
		scale++
	}
	q, rest := bits.Div64(high, low, d)
	shift := 64 - bits.LeadingZeros64(q) - 53 // at least 10, because q has at least 63 bits
	x := q >> shift
	dropped, half := q&(1<<shift-1), uint64(1)<<(shift-1)
	if dropped > half || dropped == half && (rest != 0 || x&1 == 1) {
		x++
	}
	return math.Float64frombits(uint64(scale+shift+1074)<<52 + x) // x brings 1 for the exponent with its highest bit
}

// readExponent reads what follows the letter of an exponent, up to a size at which it does not matter any more. The end is −1 if
// there are no digits.
func readExponent(b []byte, i int) (exponent, end int) {
	negative := i < len(b) && b[i] == '-'
	if negative || i < len(b) && b[i] == '+' {
		i++
	}
	first := i
	for ; i < len(b) && isDigit(b[i]); i++ {
		exponent = min(exponent*10+int(b[i]-'0'), 1<<20)
	}
	if i == first {
		return 0, -1
	}
	if negative {
		return -exponent, i
	}
	return exponent, i
}
