package prop1

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// Auto as the number of Parzen directions leaves it to Proposition 1.
const Auto = -1

// Parts is an M-step's result: the matrices of Proposition 1 and the eigenvalues behind them.
type Parts struct {
	BG, BL *mat.Dense // d×d_G and d×d_P; an empty mat.Dense where there is no column
	Ratio  []float64  // e, d of them: first those of BL's columns, then those of BG's, each ascending
}

// Split solves Proposition 1 (section 4, eq. 7; proof in the appendix, eq. 9):
//
//	min over B_G, B_L of  tr B_Gᵀ M₁ B_G + tr B_Lᵀ M₂ B_L − log det(B_G B_Gᵀ + B_L B_Lᵀ)
//
// With M₁^(−½) M₂ M₁^(−½) = U diag(e) Uᵀ the minimiser is B_G = M₁^(−½) U₊ (e ≥ 1) and
// B_L = M₁^(−½) U₋ D₋^(−½) (e < 1); the minimum is d + log det M₁ + Σ_{e<1} log e. The appendix proves
// it: for given B_L, eq. 9 makes B_G orthonormal in M₁'s metric, and orthogonal to B_L.
//
// M₁ enters by its inverse root (see inverseRoot), which a batch fit computes once. parzen fixes
// the number of columns of B_L, those of the smallest e; Auto cuts at e = 1 as the proposition does.
// With parzen = d all is Parzen: B_L B_Lᵀ = M₂⁻¹, the metric of plain LCA.
func Split(m1InverseRoot, m2 *mat.SymDense, parzen int) (Parts, error) {
	e, u, err := ratios(m1InverseRoot, m2)
	if err != nil {
		return Parts{}, err
	}
	if parzen == Auto {
		parzen = CountBelow(e, 1)
	}
	return Assemble(m1InverseRoot, u, e, parzen), nil
}

// ratios returns e ascending and U of M₁^(−½) M₂ M₁^(−½) = U diag(e) Uᵀ (Algorithm 1: eig(I_G C_L I_G)).
func ratios(m1InverseRoot, m2 *mat.SymDense) (e []float64, u *mat.Dense, err error) {
	ig := mat.DenseCopyOf(m1InverseRoot)
	var left, both mat.Dense
	linalg.Mul(&left, ig, mat.DenseCopyOf(m2))
	linalg.Mul(&both, &left, ig)
	e, u, err = eigenSym(Symmetric(&both))
	if err != nil {
		return nil, nil, fmt.Errorf("lca: eigenvalues of I_G C_L I_G: %w", err)
	}
	if !(e[0] > 0) {
		return nil, nil, fmt.Errorf("lca: C_L is singular (smallest ratio to C_G is %.3g): %w", e[0], ErrSingular)
	}
	return e, u, nil
}

// Assemble builds B_L = M₁^(−½) U₋ D₋^(−½) from the first parzen columns of u and
// B_G = M₁^(−½) U₊ from the others.
func Assemble(m1InverseRoot *mat.SymDense, u *mat.Dense, e []float64, parzen int) Parts {
	d := len(e)
	var b mat.Dense
	linalg.Mul(&b, mat.DenseCopyOf(m1InverseRoot), u)
	for j := range parzen {
		r := 1 / math.Sqrt(e[j])
		for i := range d {
			b.Set(i, j, b.At(i, j)*r)
		}
	}
	return Parts{BG: ColumnRange(&b, parzen, d), BL: ColumnRange(&b, 0, parzen), Ratio: e}
}

// InverseRoot returns the symmetric M^(−½) of a positive definite M; I_G when M is C_G + ν_g I.
func InverseRoot(m *mat.SymDense) (*mat.SymDense, error) {
	w, v, err := eigenSym(m)
	if err != nil {
		return nil, err
	}
	// Beyond 1e-15 of the largest an eigenvalue is rounding, and its inverse root noise.
	if n := len(w); !(w[0] > 1e-15*w[n-1]) {
		return nil, fmt.Errorf("smallest eigenvalue %.3g, largest %.3g: %w", w[0], w[n-1], ErrSingular)
	}
	return spectral(v, w, func(l float64) float64 { return 1 / math.Sqrt(l) }), nil
}

// eigenSym returns the eigenvalues ascending and the eigenvectors as columns, each with its
// component of largest magnitude positive, so that equal input gives equal output.
func eigenSym(m *mat.SymDense) ([]float64, *mat.Dense, error) {
	d := m.SymmetricDim()
	values, vectors, err := linalg.EigenSym(linalg.Elements(m), d)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", err, ErrSingular)
	}
	return values, mat.NewDense(d, d, vectors), nil
}

// spectral returns V diag(f(w)) Vᵀ.
func spectral(v *mat.Dense, w []float64, f func(float64) float64) *mat.SymDense {
	d := len(w)
	scaled := mat.NewDense(d, d, nil)
	for j := range d {
		fj := f(w[j])
		for i := range d {
			scaled.Set(i, j, v.At(i, j)*fj)
		}
	}
	var m mat.Dense
	linalg.Mul(&m, scaled, v.T())
	return Symmetric(&m)
}

// Symmetric returns (A + Aᵀ)/2.
func Symmetric(a *mat.Dense) *mat.SymDense {
	d, _ := a.Dims()
	s := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			s.SetSym(i, j, 0.5*(a.At(i, j)+a.At(j, i)))
		}
	}
	return s
}

// ColumnRange copies columns from … to−1 of b; an empty mat.Dense when there is none.
func ColumnRange(b *mat.Dense, from, to int) *mat.Dense {
	if from == to {
		return &mat.Dense{}
	}
	rows, _ := b.Dims()
	return mat.DenseCopyOf(b.Slice(0, rows, from, to))
}

// Columns returns the number of columns of b; 0 for nil and for an empty mat.Dense.
func Columns(b *mat.Dense) int {
	if b == nil || b.IsEmpty() {
		return 0
	}
	_, c := b.Dims()
	return c
}

// CountBelow returns how many of the ascending values are below the limit.
func CountBelow(ascending []float64, limit float64) int {
	k := 0
	for k < len(ascending) && ascending[k] < limit {
		k++
	}
	return k
}
