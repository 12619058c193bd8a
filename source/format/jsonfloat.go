package format

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

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
