package jsontext

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// Numbers have the digits that strconv gives them, whatever their size: also those next to a power of two, where the distance to the float
// below is half of that above, whole numbers, and decimals that people write.
func TestShortest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	check := func(f float64) {
		t.Helper()
		for _, f := range [...]float64{f, -f} {
			got32, got64 := string(AppendFloat32(nil, float32(f))), string(AppendFloat64(nil, f))
			if want := string(appendFloat(nil, float64(float32(f)), 32)); got32 != want {
				t.Errorf("float32 %x: %s, want %s", f, got32, want)
			}
			if want := string(appendFloat(nil, f, 64)); got64 != want {
				t.Errorf("float64 %x: %s, want %s", f, got64, want)
			}
		}
	}
	for e := -24; e < 60; e++ {
		f, f32 := math.Ldexp(1, e), float32(math.Ldexp(1, e))
		for _, g := range []float64{f, math.Nextafter(f, 0), math.Nextafter(f, 1e30), float64(math.Nextafter32(f32, 0)), float64(math.Nextafter32(f32, 1e30))} {
			check(g)
		}
	}
	for range 200_000 {
		f := math.Pow(10, rng.Float64()*26-8)
		check(f)
		check(math.Float64frombits(math.Float64bits(f) &^ (1<<rng.IntN(53) - 1)))
		check(math.Round(f*1000) / 1000)
	}
}

func BenchmarkAppendFloat(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	numbers := make([]float64, 4096)
	for i := range numbers {
		numbers[i] = rng.NormFloat64()
	}
	for name, appends := range map[string]func(dst []byte, f float64) []byte{
		"32":         func(dst []byte, f float64) []byte { return AppendFloat32(dst, float32(f)) },
		"64":         AppendFloat64,
		"strconv/32": func(dst []byte, f float64) []byte { return strconv.AppendFloat(dst, float64(float32(f)), 'f', -1, 32) },
		"strconv/64": func(dst []byte, f float64) []byte { return strconv.AppendFloat(dst, f, 'f', -1, 64) },
	} {
		b.Run(name, func(b *testing.B) {
			dst, i := make([]byte, 0, 64), 0
			for b.Loop() {
				dst = appends(dst[:0], numbers[i%len(numbers)])
				i++
			}
		})
	}
}
