package lca

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// The ridges that a singular matrix is tried with, as a share of its own diagonal. Collinear columns
// or copies of rows with ν = 0 must not end a stream; each use is reported as Step.Ridged.
var ridges = [...]float64{0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4}

// factor returns the lower Cholesky factor of the n×n matrix a, with the smallest ridge that makes
// it positive definite. a is not changed.
func factor(a []float64, n int) (low *mat.TriDense, ridged bool, err error) {
	for _, r := range ridges {
		l := append([]float64(nil), a...)
		for k := range n {
			l[k*n+k] *= 1 + r
		}
		if linalg.CholeskyLower(l, n) != nil {
			continue
		}
		if low = mat.NewTriDense(n, mat.Lower, l); regular(low, a) {
			return low, r > 0, nil
		}
	}
	return nil, true, fmt.Errorf("%d columns: %w", n, errSingular)
}

// regular says whether every column keeps a share of its variance that is not rounding when all
// columns before it are known: 1−R² of the regression on them, which is L_kk²/a_kk.
func regular(low *mat.TriDense, a []float64) bool {
	n, _ := low.Dims()
	for k := range n {
		if l := low.At(k, k); !(l*l > 1e-14*a[k*n+k]) {
			return false
		}
	}
	return true
}

// ratiosBy returns the eigenvalues e, ascending, and vectors of L⁻¹ M₂ L⁻ᵀ. Where rounding left an
// e below zero, M₂ was singular, and the ridge is a share of M₁, in whose units e is.
func ratiosBy(low *mat.TriDense, m2 []float64, n int) (e []float64, u *mat.Dense, ridged bool, err error) {
	f := mat.NewDense(n, n, append([]float64(nil), m2...))
	solveLeft(f, low)
	solveRight(f, low)
	e, u, err = eigenSym(symmetric(f))
	if err != nil {
		return nil, nil, false, err
	}
	const least = 1e-12
	for k := range e {
		if !(e[k] >= least) {
			e[k], ridged = least, true
		}
	}
	return e, u, ridged, nil
}

// solveLeft is B ← L⁻¹ B.
func solveLeft(b *mat.Dense, low *mat.TriDense) {
	w := linalg.Borrow()
	defer w.Return()
	raw := b.RawMatrix()
	w.SolveLeft(triangle(low), raw.Data, raw.Stride, raw.Rows, raw.Cols)
}

// solveRight is B ← B L⁻ᵀ.
func solveRight(b *mat.Dense, low *mat.TriDense) {
	w := linalg.Borrow()
	defer w.Return()
	raw := b.RawMatrix()
	w.SolveRight(triangle(low), raw.Data, raw.Stride, raw.Cols, raw.Rows)
}

// solveTransposed is dst ← L⁻ᵀ B.
func solveTransposed(dst *mat.Dense, low *mat.TriDense, b *mat.Dense) {
	dst.Copy(b)
	w := linalg.Borrow()
	defer w.Return()
	raw := dst.RawMatrix()
	w.SolveLeftTransposed(triangle(low), raw.Data, raw.Stride, raw.Rows, raw.Cols)
}

// multiplyTransposed is dst ← Uᵀ Lᵀ.
func multiplyTransposed(dst, u *mat.Dense, low *mat.TriDense) {
	linalg.Mul(dst, u.T(), square(low).T())
}

// square is a lower triangle as a dense matrix, on the same numbers: factor leaves zeros above.
func square(low *mat.TriDense) *mat.Dense {
	raw := low.RawTriangular()
	return mat.NewDense(raw.N, raw.N, raw.Data[:raw.N*raw.N])
}

func triangle(low *mat.TriDense) linalg.Matrix {
	raw := low.RawTriangular()
	return linalg.Dense(raw.Data, raw.Stride)
}

// logDiagonal returns log det L.
func logDiagonal(low *mat.TriDense) (sum float64) {
	n, _ := low.Dims()
	for k := range n {
		sum += math.Log(low.At(k, k))
	}
	return sum
}

// symmetrised returns (A + Aᵀ)/2 as a flat matrix.
func symmetrised(a *mat.Dense) []float64 {
	n, _ := a.Dims()
	out := make([]float64, n*n)
	for i := range n {
		for j := range n {
			out[i*n+j] = 0.5 * (a.At(i, j) + a.At(j, i))
		}
	}
	return out
}
