package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// The logarithm of a determinant is gonum's, of blocks of all sizes, of rows that change places, and of columns of very different length.
func TestLogAbsDet(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	var w Workspace
	for _, n := range []int{0, 1, 2, 15, 16, 17, 40, 100, 259} {
		a := make([]float64, n*n)
		for i := range a {
			a[i] = r.NormFloat64() * math.Pow(10, float64(i%max(n, 1)%7-3))
		}
		for i := range n / 2 { // zeros where pivots would be
			a[i*n+i] = 0
		}
		want := 0.0
		if n > 0 {
			want, _ = mat.LogDet(mat.NewDense(n, n, append([]float64(nil), a...)))
		}
		if got := w.LogAbsDet(a, n); !(math.Abs(got-want) <= 1e-11*float64(n)) {
			t.Errorf("order %d: %v, want %v", n, got, want)
		}
	}
}

func TestLogAbsDetOfSingularMatrices(t *testing.T) {
	var w Workspace
	for _, n := range []int{1, 3, 50} {
		a := make([]float64, n*n)
		for i := range n - 1 {
			a[i*n+i] = 2
		}
		if got := w.LogAbsDet(a, n); !math.IsInf(got, -1) {
			t.Errorf("order %d: %v", n, got)
		}
	}
	if got := w.LogAbsDet([]float64{1, math.NaN(), 2, 3}, 2); !math.IsNaN(got) {
		t.Errorf("of NaN: %v", got)
	}
}
