package format

import (
	"math"
	"math/bits"
	"strconv"
)

// exactPowers are the powers of ten that float64 holds exactly.
var exactPowers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// numberOrText is number for one that may stand in quotes.
func (c *cursor) numberOrText() float64 {
	if c.b[c.i] != '"' {
		return c.number()
	}
	c.i++
	x := c.number()
	c.i++
	return x
}

// number reads a number of checked text as the nearest float64, and passes it. One beyond float64 is an infinity.
//
// Most numbers have at most 15 digits and a small exponent. Then both the digits and the power of ten are exact
// in float64, so that their product or quotient is rounded once (Clinger). Up to 19 digits are divided as integers.
// All others are left to strconv.
func (c *cursor) number() float64 {
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
	digits, scale := i-first, 0
	if i < len(b) && b[i] == '.' {
		point := i
		for i++; i < len(b) && isDigit(b[i]); i++ {
			mantissa = mantissa*10 + uint64(b[i]-'0')
		}
		scale = i - point - 1
		digits += scale
	}
	exponent := 0
	if i < len(b) && b[i]|0x20 == 'e' {
		exponent, i = readExponent(b, i+1)
	}
	c.i = i
	// 19 digits fit into 64 bits; leading zeros count as digits here, which only leaves more to strconv.
	power := exponent - scale
	var x float64
	switch {
	case digits <= 19 && mantissa <= 1<<53 && power >= -22 && power <= 0:
		x = float64(mantissa) / exactPowers[-power]
	case digits <= 19 && mantissa <= 1<<53 && power > 0 && power <= 22:
		x = float64(mantissa) * exactPowers[power]
	case digits <= 19 && power >= -19 && power <= 0:
		x = quotient(mantissa, wholePowers[-power])
	default:
		x, _ = strconv.ParseFloat(aliased(b[from:i]), 64)
		return x
	}
	if negative {
		return -x
	}
	return x
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
	return math.Ldexp(float64(x), scale+shift)
}

// readExponent reads what follows the letter of an exponent, up to a size at which it does not matter any more.
func readExponent(b []byte, i int) (exponent, end int) {
	negative := b[i] == '-'
	if negative || b[i] == '+' {
		i++
	}
	for ; i < len(b) && isDigit(b[i]); i++ {
		exponent = min(exponent*10+int(b[i]-'0'), 1<<20)
	}
	if negative {
		return -exponent, i
	}
	return exponent, i
}
