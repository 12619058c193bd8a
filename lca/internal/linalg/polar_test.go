package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestPolar compares with U Vᵀ of gonum's singular value decomposition, over the range of singular values.
func TestPolar(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	each(t, func(t *testing.T, n int) {
		if n == 0 {
			return // gonum has no such matrix
		}
		for _, spread := range []float64{0, 1, 3} {
			m := n + r.IntN(4)
			a := normals(r, m*n)
			for i := range m { // columns from 1 down to 10^−spread
				for j := range n {
					a[i*n+j] *= math.Pow(10, -spread*float64(j)/float64(n))
				}
			}
			var svd mat.SVD
			if !svd.Factorize(mat.NewDense(m, n, append([]float64(nil), a...)), mat.SVDThin) {
				t.Fatal("no singular values")
			}
			values := svd.Values(nil)
			var u, v, want mat.Dense
			svd.UTo(&u)
			svd.VTo(&v)
			want.Mul(&u, v.T())
			var w Workspace
			if !w.Polar(a, m, n) {
				t.Fatalf("%d×%d, spread %g: no polar factor, singular values %g … %g", m, n, spread, values[0], values[n-1])
			}
			// A relative change ε of A turns U Vᵀ by up to ε times the condition number.
			near(t, "U Vᵀ", a, want.RawMatrix().Data, 1e-13*values[0]/values[n-1])
			gram := make([]float64, n*n)
			w.AddGram(gram, a, m, n)
			Mirror(gram, n)
			if off := largestRowSum(gram, n, 1); off > 1e-13*float64(n) {
				t.Errorf("%d×%d, spread %g: columns are off from orthonormal by %g", m, n, spread, off)
			}
		}
	})
}

func TestPolarOfSingular(t *testing.T) {
	for name, a := range map[string][]float64{
		"dependent columns": {1, 2, 2, 4, 3, 6},
		"zero":              make([]float64, 6),
		"not a number":      {1, 2, math.NaN(), 4, 3, 6},
		"infinite":          {1, 2, math.Inf(1), 4, 3, 6},
		"overflowing":       {1e200, 2, 3, 1e200, 5, 6},
	} {
		var w Workspace
		was := append([]float64(nil), a...)
		if w.Polar(a, 3, 2) {
			t.Errorf("%s: a polar factor", name)
		}
		for k, v := range a {
			if math.Float64bits(v) != math.Float64bits(was[k]) {
				t.Errorf("%s: element %d was changed", name, k)
			}
		}
	}
}
