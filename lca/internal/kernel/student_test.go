package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestStudentBits also holds that no weight is subnormal, nor its square.
func TestStudentBits(t *testing.T) { specification(t, studentBits[float32], studentBits[float64]) }

func studentBits[T Float](t *testing.T, got, want *functions[T], r *rand.Rand, fill func() T) {
	for n := lanes; n < 68+lanes; n += lanes {
		for _, power := range []int{2, 3, 5, 8, 14, 67, 260} {
			s := newGuarded(n, r.IntN(8), func() T { return fill() * 30 })
			s2, top, rate := s.clone(), want.rowMax(s.s), T(2/(4+100*r.Float64()))
			least := T(math.Exp(studentCut32 / (0.5 * float64(power))))
			a, b, c := got.studentRow(s.s, top, rate, least, power)
			a2, b2, c2 := want.studentRow(s2.s, top, rate, least, power)
			compare(t, fmt.Sprintf("weights, power %d", power), s.all, s2.all)
			compare(t, "sums", []T{a, b, c}, []T{a2, b2, c2})
			for _, v := range s.s {
				if v != 0 && float64(v) < 0x1p-126 || v > 1 || v != v {
					t.Fatalf("weight %v, want 0 or a normal number up to 1", v)
				}
			}
		}
	}
}
