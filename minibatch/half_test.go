package minibatch

import (
	"math"
	"testing"
)

// Every float16, against the formula of IEEE 754.
func TestHalfToFloat(t *testing.T) {
	for bits := range 1 << 16 {
		e, f := bits>>10&31, bits&1023
		want := math.Ldexp(float64(1024+f), e-25)
		switch {
		case e == 31 && f > 0:
			want = math.NaN()
		case e == 31:
			want = math.Inf(1)
		case e == 0:
			want = math.Ldexp(float64(f), -24)
		}
		if bits>>15 == 1 {
			want = math.Copysign(want, -1)
		}
		got := halfToFloat(uint16(bits))
		if math.IsNaN(want) {
			if !math.IsNaN(got) {
				t.Errorf("%04x: %v is no NaN", bits, got)
			}
			continue
		}
		if math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%04x: %v, want %v", bits, got, want)
		}
	}
}
