package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// TestProduct holds every view, mode and implementation against one chain of multiply-adds an element.
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
