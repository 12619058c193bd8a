package minibatch

import (
	"math"
	"testing"
)

// One number that is not finite is found wherever it stands, among numbers of all sizes and signs.
func TestFinite(t *testing.T) {
	bad := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.Float32frombits(0xffffffff)}
	for n := range 40 {
		v := make([]float32, n)
		for i := range v {
			v[i] = []float32{math.MaxFloat32, -math.MaxFloat32, 0, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, -1}[i%6]
		}
		for from := range n { // an odd start is not aligned to two numbers
			if !Finite(v[from:]) {
				t.Fatalf("%v is said to hold a number that is not finite", v[from:])
			}
		}
		for i := range v {
			was := v[i]
			for _, x := range bad {
				if v[i] = x; Finite(v) {
					t.Errorf("%v in place %d of %d was not found", x, i, n)
				}
			}
			v[i] = was
		}
	}
}
