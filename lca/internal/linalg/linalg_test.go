package linalg

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func sizes() []int { return []int{0, 1, 2, 3, 5, 16, 33, 64, 65, 100} }

// spd draws A Aᵀ + I, of condition about n.
func spd(n int) []float64 {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	g := make([]float64, n*n)
	for i := range g {
		g[i] = r.NormFloat64()
	}
	a := multiply(g, transpose(g, n), n)
	for i := range n {
		a[i*n+i]++
	}
	return a
}

func multiply(a, b []float64, n int) []float64 {
	c := make([]float64, n*n)
	for i := range n {
		for k := range n {
			for j := range n {
				c[i*n+j] += a[i*n+k] * b[k*n+j]
			}
		}
	}
	return c
}

func transpose(a []float64, n int) []float64 {
	t := make([]float64, n*n)
	for i := range n {
		for j := range n {
			t[j*n+i] = a[i*n+j]
		}
	}
	return t
}

func identity(n int) []float64 {
	a := make([]float64, n*n)
	for i := range n {
		a[i*n+i] = 1
	}
	return a
}

// near compares relative to the largest element of want; tol is per unit of n, as backward errors grow.
func near(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	size := 1e-300
	for _, v := range want {
		size = max(size, math.Abs(v))
	}
	for i, v := range got {
		if !(math.Abs(v-want[i]) <= tol*size) {
			t.Fatalf("%s[%d] = %v, want %v within %g", what, i, v, want[i], tol*size)
		}
	}
}

func each(t *testing.T, f func(t *testing.T, n int)) {
	for _, n := range sizes() {
		t.Run(fmt.Sprint(n), func(t *testing.T) { f(t, n) })
	}
}

func TestCholeskyAndInverse(t *testing.T) {
	each(t, func(t *testing.T, n int) {
		a := spd(n)
		l := append([]float64(nil), a...)
		if err := choleskyLower(l, n); err != nil {
			t.Fatal(err)
		}
		near(t, "L Lᵀ", multiply(l, transpose(l, n), n), a, 1e-14)
		inv := append([]float64(nil), l...)
		invertLower(inv, n)
		near(t, "L L⁻¹", multiply(l, inv, n), identity(n), 1e-12)
		for i := range n {
			for j := i + 1; j < n; j++ {
				if l[i*n+j] != 0 || inv[i*n+j] != 0 {
					t.Fatalf("(%d, %d) above the diagonal is not zero", i, j)
				}
			}
		}
	})
}

func TestCholeskyRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		a    []float64
	}{
		{"indefinite", []float64{1, 0, 2, 1}},
		{"semidefinite", []float64{1, 0, 1, 1}},
		{"negative", []float64{-1, 0, 0, 1}},
		{"NaN", []float64{math.NaN(), 0, 0, 1}},
		{"NaN off the diagonal", []float64{1, 0, math.NaN(), 1}},
	} {
		before := fmt.Sprint(c.a)
		if err := choleskyLower(c.a, 2); !errors.Is(err, ErrNotPositiveDefinite) {
			t.Errorf("%s: error %v, want ErrNotPositiveDefinite", c.name, err)
		}
		if after := fmt.Sprint(c.a); after != before {
			t.Errorf("%s: argument changed from %s to %s", c.name, before, after)
		}
	}
}

func TestEigenSym(t *testing.T) {
	each(t, func(t *testing.T, n int) {
		a := spd(n)
		values, v, err := EigenSym(a, n)
		if err != nil {
			t.Fatal(err)
		}
		scaled := make([]float64, n*n)
		for j := range n {
			if j > 0 && values[j] < values[j-1] {
				t.Fatalf("eigenvalue %d is below its predecessor", j)
			}
			top := 0.0
			for i := range n {
				scaled[i*n+j] = v[i*n+j] * values[j]
				if math.Abs(v[i*n+j]) > math.Abs(top) {
					top = v[i*n+j]
				}
			}
			if top <= 0 {
				t.Fatalf("eigenvector %d: largest component is %v, want it positive", j, top)
			}
		}
		near(t, "V E Vᵀ", multiply(scaled, transpose(v, n), n), a, 1e-13)
		near(t, "VᵀV", multiply(transpose(v, n), v, n), identity(n), 1e-13)
	})
}

func TestEigenSymRefuses(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		if _, _, err := EigenSym([]float64{1, 0, bad, 1}, 2); !errors.Is(err, ErrNotFinite) {
			t.Errorf("with %v: error %v, want ErrNotFinite", bad, err)
		}
	}
}

func choleskyLower(a []float64, n int) error { return new(Workspace).CholeskyLower(a, n) }

func invertLower(l []float64, n int) { new(Workspace).invertLower(l, n, n) }
