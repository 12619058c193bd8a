package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// TestSolvers compares with gonum's Trsm at orders around the blocks, and looks at the padding.
func TestSolvers(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, n := range []int{1, 5, 31, 32, 33, 70, 129} {
		l := spd(n)
		if err := choleskyLower(l, n); err != nil {
			t.Fatal(err)
		}
		low := blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: n, Stride: n, Data: l}
		for _, other := range []int{1, 3, 40} {
			for name, solve := range map[string]func(b blas64.General, w *Workspace){
				"left": func(b blas64.General, w *Workspace) { w.SolveLeft(Dense(l, n), b.Data, b.Stride, n, other) },
				"left transposed": func(b blas64.General, w *Workspace) {
					w.SolveLeftTransposed(Dense(l, n), b.Data, b.Stride, n, other)
				},
				"right": func(b blas64.General, w *Workspace) { w.SolveRight(Dense(l, n), b.Data, b.Stride, n, other) },
			} {
				rows, cols := n, other
				if name == "right" {
					rows, cols = other, n
				}
				ld := cols + 2
				got := blas64.General{Rows: rows, Cols: cols, Stride: ld, Data: normals(r, rows*ld)}
				want := got
				want.Data = append([]float64(nil), got.Data...)
				switch name {
				case "left":
					blas64.Trsm(blas.Left, blas.NoTrans, 1, low, want)
				case "left transposed":
					blas64.Trsm(blas.Left, blas.Trans, 1, low, want)
				case "right":
					blas64.Trsm(blas.Right, blas.Trans, 1, low, want)
				}
				solve(got, new(Workspace))
				for i, v := range got.Data {
					tol := 1e-13 * float64(n) // L's condition is about √n
					if i%ld >= cols {
						tol = 0
					}
					if !(math.Abs(v-want.Data[i]) <= tol) {
						t.Fatalf("%s, order %d, %d others: element %d is %v, want %v", name, n, other, i, v, want.Data[i])
					}
				}
			}
		}
	}
}

func TestMulIsGonums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	a, b := mat.NewDense(7, 40, normals(r, 280)), mat.NewDense(40, 9, normals(r, 360))
	tri := mat.NewTriDense(40, mat.Lower, normals(r, 1600))
	for _, c := range []struct {
		name string
		a, b mat.Matrix
	}{
		{"plain", a, b},
		{"both transposed", b.T(), a.T()},
		{"a part", a.Slice(1, 6, 3, 12), b.Slice(2, 11, 1, 8)},
		{"a triangle", a, tri},
		{"a vector", a, mat.NewDense(40, 1, normals(r, 40))},
	} {
		var got, want mat.Dense
		Mul(&got, c.a, c.b)
		want.Mul(c.a, c.b)
		if !mat.EqualApprox(&got, &want, 1e-13) {
			t.Errorf("%s: %v, want %v", c.name, mat.Formatted(&got), mat.Formatted(&want))
		}
	}
}
