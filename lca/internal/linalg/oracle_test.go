package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// kinds are matrices that trip eigensolvers: clustered, graded, singular, decoupled.
func kinds(n int) map[string][]float64 {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	out := map[string][]float64{"positive definite": spd(n), "zero": make([]float64, n*n), "identity": identity(n)}
	low, graded, blocks, tiny := make([]float64, n*n), make([]float64, n*n), make([]float64, n*n), make([]float64, n*n)
	v := normals(r, n)
	for i := range n {
		for j := range n {
			low[i*n+j] = v[i] * v[j]
			if i/3 == j/3 {
				blocks[i*n+j] = 1
			}
		}
	}
	base := spd(n)
	for i := range n {
		for j := range n {
			graded[i*n+j] = base[i*n+j] * math.Pow(10, -float64(i+j)*6/float64(n))
			tiny[i*n+j] = base[i*n+j] * 1e-200
		}
	}
	out["rank one"], out["graded"], out["blocks of ones"], out["tiny"] = low, graded, blocks, tiny
	indefinite := append([]float64(nil), base...)
	for i := range n {
		indefinite[i*n+i] -= float64(2 * n)
	}
	out["indefinite"] = indefinite
	// Wilkinson's matrices of order 21 glued together, whose eigenvalues come in near copies; nearly the
	// identity; and the second difference, whose vectors are all over the place.
	glued, near, second := make([]float64, n*n), identity(n), make([]float64, n*n)
	for i := range n {
		glued[i*n+i], second[i*n+i] = math.Abs(float64(i%21-10)), 2
		if i > 0 {
			glued[i*n+i-1], second[i*n+i-1] = 1, -1
			if i%21 == 0 {
				glued[i*n+i-1] = 1e-9
			}
			glued[(i-1)*n+i], second[(i-1)*n+i] = glued[i*n+i-1], -1
		}
		for j := range n {
			near[i*n+j] += 1e-13 * base[i*n+j]
		}
	}
	out["glued"], out["nearly the identity"], out["second difference"] = glued, near, second
	return out
}

// TestEigenOfKinds checks residual and orthogonality, and the values against gonum's.
func TestEigenOfKinds(t *testing.T) {
	for _, n := range []int{1, 2, 3, 31, 32, 33, 65, 130, 261} {
		for kind, a := range kinds(n) {
			norm := 0.0
			for _, v := range a {
				norm = max(norm, math.Abs(v))
			}
			values, v, err := EigenSym(a, n)
			if err != nil {
				t.Fatalf("%s of order %d: %v", kind, n, err)
			}
			// gonum v0.17 panics where it has to scale (Dlascl in Dsterf), so it gets norm one.
			scaled := append([]float64(nil), a...)
			for i := range scaled {
				scaled[i] /= max(norm, 1e-300)
			}
			sym := mat.NewSymDense(n, scaled)
			var e mat.EigenSym
			if !e.Factorize(sym, false) {
				t.Fatalf("gonum failed on %s of order %d", kind, n)
			}
			tol := 4e-15 * float64(n) * max(norm, 1e-300) // a few ulps of the norm for each column
			for i, want := range e.Values(nil) {
				want *= norm
				if math.Abs(values[i]-want) > tol {
					t.Fatalf("%s of order %d: eigenvalue %d is %v, gonum has %v", kind, n, i, values[i], want)
				}
			}
			av := multiply(a, v, n)
			eye := identity(n)
			vtv := multiply(transpose(v, n), v, n)
			for i := range n {
				for j := range n {
					if d := math.Abs(av[i*n+j] - v[i*n+j]*values[j]); d > tol {
						t.Fatalf("%s of order %d: residual %g, want at most %g", kind, n, d, tol)
					}
					if d := math.Abs(vtv[i*n+j] - eye[i*n+j]); d > 1e-15*float64(n+10) {
						t.Fatalf("%s of order %d: vectors %d and %d are off by %g", kind, n, i, j, d)
					}
				}
			}
		}
	}
}

// TestOracles compares the triangular routines with gonum's at orders around the blocks.
func TestOracles(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 96, 150, 161} {
		a := spd(n)
		var c mat.Cholesky
		if !c.Factorize(mat.NewSymDense(n, append([]float64(nil), a...))) {
			t.Fatal("gonum failed")
		}
		var want, inverse mat.TriDense
		c.LTo(&want)
		if err := inverse.InverseTri(&want); err != nil {
			t.Fatal(err)
		}
		if err := choleskyLower(a, n); err != nil {
			t.Fatal(err)
		}
		got := append([]float64(nil), a...)
		invertLower(got, n)
		for i := range n {
			for j := range n {
				if d := math.Abs(a[i*n+j] - want.At(i, j)); d > 1e-13*float64(n) {
					t.Fatalf("order %d: L(%d, %d) is off by %g", n, i, j, d)
				}
				if d := math.Abs(got[i*n+j] - inverse.At(i, j)); d > 1e-13*float64(n) {
					t.Fatalf("order %d: L⁻¹(%d, %d) is off by %g", n, i, j, d)
				}
			}
		}
	}
}

// TestBits says that a factorisation does not depend on the processor.
func TestBits(t *testing.T) {
	const n = 140
	kinds := kinds(n)
	want := map[string][]float64{}
	kernel.Each(func(name string) {
		for kind, a := range kinds {
			values, vectors, err := EigenSym(a, n)
			if err != nil {
				t.Fatal(err)
			}
			got := append(values, vectors...)
			if l := append([]float64(nil), a...); choleskyLower(l, n) == nil {
				got = append(got, l...)
				invertLower(l, n)
				got = append(got, l...)
			}
			if want[kind] == nil {
				want[kind] = got
			}
			for i, v := range got {
				if v != want[kind][i] {
					t.Fatalf("%s, %s: number %d is %v; another implementation has %v", name, kind, i, v, want[kind][i])
				}
			}
		}
	})
}

func benchmarkOrders(b *testing.B, f func(b *testing.B, a []float64, n int)) {
	for _, n := range []int{16, 64, 256, 1024} {
		b.Run(map[int]string{16: "16", 64: "64", 256: "256", 1024: "1024"}[n], func(b *testing.B) { f(b, spd(n), n) })
	}
}

func BenchmarkEigenSym(b *testing.B) {
	benchmarkOrders(b, func(b *testing.B, a []float64, n int) {
		for b.Loop() {
			if _, _, err := EigenSym(a, n); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCholeskyLower(b *testing.B) {
	benchmarkOrders(b, func(b *testing.B, a []float64, n int) {
		l := make([]float64, len(a))
		for b.Loop() {
			copy(l, a)
			if err := choleskyLower(l, n); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkInvertLower(b *testing.B) {
	benchmarkOrders(b, func(b *testing.B, a []float64, n int) {
		if err := choleskyLower(a, n); err != nil {
			b.Fatal(err)
		}
		l := make([]float64, len(a))
		for b.Loop() {
			copy(l, a)
			invertLower(l, n)
		}
	})
}
