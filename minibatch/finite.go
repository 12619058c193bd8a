package minibatch

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
)

// Finite reports whether no number is NaN or infinite. Only those have an exponent of all ones, and adding one to
// such an exponent carries into the sign bit. So two numbers can be checked at a time.
func Finite(v []float32) bool {
	const exponents, ones, signs = 0x7f800000_7f800000, 0x00800000_00800000, 0x80000000_80000000
	var carry uint64
	b, ne := arrow.Float32Traits.CastToBytes(v), binary.NativeEndian
	for len(b) >= 32 {
		carry |= (ne.Uint64(b)&exponents + ones) | (ne.Uint64(b[8:])&exponents + ones) |
			(ne.Uint64(b[16:])&exponents + ones) | (ne.Uint64(b[24:])&exponents + ones)
		b = b[32:]
	}
	for _, x := range v[len(v)-len(b)/4:] {
		carry |= (uint64(math.Float32bits(x))&exponents + ones) & (signs >> 32)
	}
	return carry&signs == 0
}
