package jsontext

import "math/bits"

// appendShort appends the shortest digits of the float c·2^q without an exponent: those that strconv appends, in half of its time.
// q ≤ 0, and c is not a power of two.
func appendShort(dst []byte, c uint64, q int) []byte {
	var digits uint64
	scale := 0 // digits behind the point
	if bits.TrailingZeros64(c) >= -q {
		digits = c >> -q
	} else {
		digits, scale = shortest(c, q)
		for digits%10 == 0 {
			digits, scale = digits/10, scale-1
		}
	}
	var text [mostDigits]byte
	i := len(text)
	for ; digits >= 10; digits /= 100 {
		pair := digits % 100 * 2
		i -= 2
		text[i], text[i+1] = pairs[pair], pairs[pair+1]
	}
	if digits > 0 {
		i--
		text[i] = byte('0' + digits)
	}
	switch point := len(text) - scale; {
	case scale <= 0:
		return append(dst, text[i:]...)
	case point > i:
		dst = append(append(dst, text[i:point]...), '.')
		return append(dst, text[point:]...)
	default:
		dst = append(dst, "0.000000"[:2+i-point]...)
		return append(dst, text[i:]...)
	}
}

const mostDigits = 17

// pairs are the numbers from 0 to 99 in two digits each.
const pairs = "0001020304050607080910111213141516171819" + "2021222324252627282930313233343536373839" +
	"4041424344454647484950515253545556575859" + "6061626364656667686970717273747576777879" + "8081828384858687888990919293949596979899"

// shortest returns the decimal of fewest digits, digits·10^−scale, that is read back as c·2^q; of several the nearest. This is Schubfach
// (Raffaello Giulietti, "The Schubfach way to render doubles", 2021): all decimals that are read back lie between the middles of
// the float and its neighbours, which are as far below as above unless c is a power of two, and one of at most four is the shortest.
// Zeros may be left at its end. For q ≤ 0 the power of ten is a whole number that one word holds, so nothing is rounded but
// what a sticky last bit tells.
func shortest(c uint64, q int) (digits uint64, scale int) {
	k := q * 1262611 >> 22              // ⌊log10 2^q⌋
	shift := q + (-k*1741647)>>19 + 1   // ⌊log2 10^−k⌋ is −k·1741647 / 2^19
	low, mid, high := 4*c-2, 4*c, 4*c+2 // the float and these middles, times 4
	odd := c & 1                        // the middles themselves are read back as an even c
	low, mid, high = timesTen(-k, low<<shift)+odd, timesTen(-k, mid<<shift), timesTen(-k, high<<shift)-odd
	s := mid / 4
	if t := s / 10; t > 0 { // one digit less
		if down, up := low <= 40*t, 40*t+40 <= high; down != up {
			return t + one(up), -k - 1
		}
	}
	down, up := low <= 4*s, 4*s+4 <= high
	if down == up {
		up = mid > 4*s+2 || mid == 4*s+2 && s&1 == 1
	}
	return s + one(up), -k
}

// timesTen is 10^k·x without its last bits, of which the last bit of the result says whether one is set.
func timesTen(k int, x uint64) uint64 {
	high, low := bits.Mul64(tens[k], x)
	return high | one(low != 0)
}

func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// tens are the powers of ten from 10^0 on, shifted so that the highest bit is set. All of their other bits fit behind it.
var tens = func() (t [28]uint64) {
	five := uint64(1)
	for k := range t {
		t[k] = five << bits.LeadingZeros64(five)
		five *= 5
	}
	return t
}()
