package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactFMA32 is a·b + c in arbitrary precision, rounded once.
func exactFMA32(a, b, c float32) float32 {
	if p := float64(a) * float64(b); math.IsInf(p, 0) || p != p || c != c || math.IsInf(float64(c), 0) {
		return float32(p + float64(c))
	}
	x := new(big.Float).SetPrec(2000).SetFloat64(float64(a))
	x.Mul(x, new(big.Float).SetFloat64(float64(b)))
	x.Add(x, new(big.Float).SetFloat64(float64(c)))
	if x.Sign() == 0 {
		return float32(float64(a)*float64(b) + float64(c)) // the sign of zero
	}
	f, _ := x.Float32()
	return f
}

func TestFMA32RoundsOnce(t *testing.T) {
	check := func(a, b, c float32) {
		got, want := fma32(a, b, c), exactFMA32(a, b, c)
		if math.Float32bits(got) != math.Float32bits(want) && !(got != got && want != want) {
			t.Fatalf("fma32(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1 + 0x1p-12, -1 - 0x1p-12, 0x1p-80, -0x1p-80, 0x1p-149, -0x1p-149,
		0x1p-126, 0x1.fffffep-127, 0x1p-75, 0x1.8p-75, math.MaxFloat32, -math.MaxFloat32, 0x1p127, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1 + 0x1p-23, 3}
	for _, a := range special {
		for _, b := range special {
			for _, c := range special {
				check(a, b, c)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		// Few mantissa bits make half-way points common; a wide range of exponents reaches subnormals.
		draw := func() float32 {
			m := r.Uint32() & 0x807fffff & ^(1<<r.UintN(24) - 1)
			return math.Float32frombits(m | (127-80+r.Uint32N(120))<<23)
		}
		check(draw(), draw(), draw())
	}
}

func TestExp(t *testing.T) {
	worst32, worst64 := 0.0, 0.0
	for i := range 1_000_000 {
		t32 := float32(-66.9 * float64(i) / 1e6)
		want := math.Exp(float64(t32))
		ulp := math.Abs(float64(math.Nextafter32(float32(want), 2)) - float64(float32(want)))
		worst32 = max(worst32, math.Abs(float64(exp32(t32))-want)/ulp)
		if i%10 == 0 {
			t64 := -687.9 * float64(i) / 1e6
			want := math.Exp(t64)
			worst64 = max(worst64, math.Abs(exp64(t64)-want)/(math.Nextafter(want, 2)-want))
		}
	}
	if worst32 > 1 || worst64 > 2 { // math.Exp itself is good to one ulp
		t.Errorf("exp is off by %.2f ulp in float32, %.2f ulp in float64; want at most 1 and 2", worst32, worst64)
	}
	if exp32(0) != 1 || exp64(0) != 1 || exp32(-67.01) != 0 || exp64(-688.01) != 0 {
		t.Error("exp at 0 and below the cut")
	}
}
