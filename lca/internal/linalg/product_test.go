package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// TestProduct holds every view, mode and implementation against one chain of multiply-adds per element.
func TestProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	draw := func(rows, cols int) Matrix {
		if r.IntN(2) == 0 {
			return view(r, cols, rows).T()
		}
		return view(r, rows, cols)
	}
	for _, shape := range [][3]int{{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {1, 1, 1}, {5, 7, 3}, {14, 16, 32}, {113, 33, 257}, {130, 8, 600}, {64, 64, 64}, {2, 17, 1}} {
		m, n, k := shape[0], shape[1], shape[2]
		for mode := Set; mode <= Subtract; mode++ {
			a, b := draw(m, k), draw(k, n)
			ldc := n + r.IntN(3)
			start := normals(r, m*ldc)
			want := append([]float64(nil), start...)
			for i := range m {
				for j := range n {
					s := want[i*ldc+j]
					if mode == Set {
						s = 0
					}
					for l := range k {
						v := b.Data[l*b.Row+j*b.Col]
						if mode == Subtract {
							v = -v
						}
						s = math.FMA(a.Data[i*a.Row+l*a.Col], v, s)
					}
					want[i*ldc+j] = s
				}
			}
			kernel.Each(func(name string) {
				var w Workspace
				got := append([]float64(nil), start...)
				w.Product(got, ldc, a, b, m, n, k, mode)
				for i, v := range got {
					if v != want[i] {
						t.Fatalf("%s: %d×%d×%d, mode %d, element %d is %v, want %v", name, m, k, n, mode, i, v, want[i])
					}
				}
			})
		}
	}
}

// TestProductOfTriangles holds that leaving zeros out changes nothing, at orders around the blocks.
func TestProductOfTriangles(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, n := range []int{1, 15, 16, 17, 100, 130, 300} {
		lower, upper, band := normals(r, n*n), normals(r, n*n), normals(r, n*n)
		for i := range n {
			for j := range n {
				if j > i {
					lower[i*n+j] = 0
				} else if j < i {
					upper[i*n+j] = 0
				}
				if j < n/3 || j > n/2 || i < n/4 || i > n/3 {
					band[i*n+j] = 0
				}
			}
		}
		zero := make([]float64, n*n)
		for name, a := range map[string][]float64{"lower": lower, "upper": upper, "band": band, "zero": zero} {
			for other, b := range map[string][]float64{"lower": lower, "upper": upper, "band": band, "zero": zero} {
				want := multiply(a, b, n)
				var w Workspace
				got := normals(r, n*n)
				w.Product(got, n, Dense(a, n), Dense(b, n), n, n, n, Set)
				near(t, name+"·"+other, got, want, 1e-13)
				w.Product(got, n, Dense(transpose(a, n), n).T(), Dense(transpose(b, n), n).T(), n, n, n, Subtract)
				for i, v := range got {
					if math.Abs(v) > 1e-12 {
						t.Fatalf("%s·%s of order %d less itself: element %d is %v", name, other, n, i, v)
					}
				}
			}
		}
	}
}

// TestCongruence compares A S Aᵀ with plain loops, and its triangles with ==.
func TestCongruence(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	each(t, func(t *testing.T, n int) {
		a, s := normals(r, n*n), spd(n)
		got := make([]float64, n*n)
		var w Workspace
		w.Congruence(got, Dense(transpose(a, n), n).T(), s, n)
		near(t, "A S Aᵀ", got, multiply(multiply(a, s, n), transpose(a, n), n), 1e-12)
		near(t, "its transpose", transpose(got, n), got, 0)
	})
}

// TestAddGram compares C + XᵀX with plain loops.
func TestAddGram(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	each(t, func(t *testing.T, n int) {
		const rows = 300
		x, got := normals(r, rows*n), spd(n)
		want := append([]float64(nil), got...)
		for i := range n {
			for j := range n {
				for k := range rows {
					want[i*n+j] += x[k*n+i] * x[k*n+j]
				}
			}
		}
		var w Workspace
		w.AddGram(got, x, rows, n)
		Mirror(got, n)
		near(t, "C + XᵀX", got, want, 1e-13)
	})
}

func normals(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// view is a row-major view with a stride that may be longer than its rows.
func view(r *rand.Rand, rows, cols int) Matrix {
	ld := max(1, cols+r.IntN(3))
	return Matrix{normals(r, rows*ld+1), ld, 1}
}

// TestGrams compares with the product itself, of columns that make whole panels and of others, in rows that end within a block.
func TestGrams(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var w Workspace
	const rows, n = 61, 35
	x := normals(r, rows*n)
	outer, want := make([]float64, rows*rows), make([]float64, rows*rows)
	w.AddOuter(outer, x, rows, n)
	Mirror(outer, rows)
	w.Product(want, rows, Dense(x, n), Dense(x, n).T(), rows, rows, n, Set)
	near(t, "XXᵀ", outer, want, 1e-13)
	gram := make([]float64, n*n)
	w.Product(gram, n, Dense(x, n).T(), Dense(x, n), n, n, rows, Set)
	for _, cols := range []int{1, 16, 32, 33, 80} {
		v := normals(r, n*cols)
		got, want := normals(r, n*cols), make([]float64, n*cols)
		w.Product(want, cols, Dense(gram, n), Dense(v, cols), n, cols, n, Set)
		for i := range want {
			want[i] = got[i] - 0.5*want[i]
		}
		w.AddGramTimes(got, x, rows, n, v, cols, -0.5)
		near(t, "XᵀXV", got, want, 1e-12)
	}
}
