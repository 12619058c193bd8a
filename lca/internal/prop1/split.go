package prop1

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
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

// MetricRoot returns the symmetric root M^½ of M = B Bᵀ; a constant column's weight is exactly 0. Where
// the columns of the input differ so much in scale that a symmetric root cannot hold M in float64, it
// returns the root of the metric in units of equal precision instead, R^½ diag(√M_kk): the same distances,
// in rotated coordinates.
func MetricRoot(b *mat.Dense) *mat.Dense {
	d, _ := b.Dims()
	active := NonzeroRows(b)
	varying := mat.NewDense(len(active), b.RawMatrix().Cols, nil)
	for i, k := range active {
		copy(varying.RawRowView(i), b.RawRowView(k))
	}
	var m mat.Dense
	linalg.Mul(&m, varying, varying.T())
	root := rootOf(&m)
	if !reproduces(root, &m) {
		unit := func(k int) float64 { return math.Sqrt(m.At(k, k)) }
		correlations := mat.NewDense(len(active), len(active), nil)
		correlations.Apply(func(i, j int, v float64) float64 { return v / (unit(i) * unit(j)) }, &m)
		root = rootOf(correlations)
		root.Apply(func(_, j int, v float64) float64 { return v * unit(j) }, root)
	}
	w := mat.NewDense(d, d, nil)
	for i, k := range active {
		for j, l := range active {
			w.Set(k, l, root.At(i, j))
		}
	}
	return w
}

// NonzeroRows returns the indices of the rows of b that are not all 0.
func NonzeroRows(b *mat.Dense) []int {
	var rows []int
	for k := range b.RawMatrix().Rows {
		if floats.Norm(b.RawRowView(k), 2) > 0 {
			rows = append(rows, k)
		}
	}
	return rows
}

// rootOf returns the symmetric root of a positive semidefinite matrix.
func rootOf(m *mat.Dense) *mat.Dense {
	w, v, err := eigenSym(Symmetric(m))
	if err != nil {
		panic("lca: a metric that was checked when it was learnt has no eigenvalues")
	}
	root := spectral(v, w, func(l float64) float64 { return math.Sqrt(math.Max(l, 0)) })
	return mat.DenseCopyOf(root)
}

// reproduces reports whether WᵀW is M, to 1e-10 of the scale of each pair of columns.
func reproduces(w, m *mat.Dense) bool {
	var got mat.Dense
	linalg.Mul(&got, w.T(), w)
	d, _ := m.Dims()
	for i := range d {
		for j := range d {
			if !(math.Abs(got.At(i, j)-m.At(i, j)) <= 1e-10*math.Sqrt(m.At(i, i)*m.At(j, j))) {
				return false
			}
		}
	}
	return true
}

// Polar returns the orthogonal O that takes root to w best: O = UVᵀ of w rootᵀ = U S Vᵀ.
func Polar(w, root *mat.Dense) (*mat.Dense, error) {
	var product mat.Dense
	linalg.Mul(&product, w, root.T())
	var svd mat.SVD
	if !svd.Factorize(&product, mat.SVDFull) {
		return nil, fmt.Errorf("lca: the singular values of a rotation did not converge: %w", ErrSingular)
	}
	var u, v, o mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	linalg.Mul(&o, &u, v.T())
	return &o, nil
}

// Ridges are tried in turn on a singular matrix, each a share of its own diagonal. Collinear columns, or copies of rows
// with ν = 0, must not end a stream; a learner reports each use as Step.Ridged.
var Ridges = [...]float64{0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4}

// Factor sets low to the lower Cholesky factor of the n×n matrix a, with the smallest ridge that makes
// it positive definite. a is not changed.
func Factor(low, a []float64, n int, w *linalg.Workspace) (ridged bool, err error) {
	for _, r := range Ridges {
		copy(low, a[:n*n])
		for k := range n {
			low[k*n+k] *= 1 + r
		}
		if w.CholeskyLower(low, n) == nil && Regular(low, n) {
			return r > 0, nil
		}
	}
	return true, fmt.Errorf("%d columns: %w", n, ErrSingular)
}

// Regular reports whether every column keeps a share of its variance that is not rounding, given all columns
// before it: 1−R² of the regression on them, which is L_kk²/a_kk, and a_kk is the
// square of L's row k.
func Regular(low []float64, n int) bool {
	for k := range n {
		row := low[k*n:][:k+1]
		if l := row[k]; !(l*l > 1e-14*kernel.NormSquared(row)) {
			return false
		}
	}
	return true
}

// RatiosByFactor sets e to the eigenvalues, ascending, and u to the eigenvectors of L⁻¹ M₂ L⁻ᵀ, and overwrites M₂. An e
// that is not positive means that M₂ is singular up to rounding; it becomes 1e-12, a ridge that is a share of M₁.
func RatiosByFactor(e, u, low, m2 []float64, n int, w *linalg.Workspace) (ridged bool, err error) {
	w.SolveLeft(linalg.Dense(low, n), m2, n, n, n)
	w.SolveRight(linalg.Dense(low, n), m2, n, n, n)
	symmetrise(m2, n)
	if err := w.EigenSym(e, u, m2, n); err != nil {
		return false, fmt.Errorf("%w: %w", err, ErrSingular)
	}
	const least = 1e-12
	for k := range e {
		if !(e[k] >= least) {
			e[k], ridged = least, true
		}
	}
	return ridged, nil
}

// symmetrise is A ← (A + Aᵀ)/2, for the lower triangle alone.
func symmetrise(a []float64, n int) {
	for i := range n {
		for j := range i {
			a[i*n+j] = 0.5 * (a[i*n+j] + a[j*n+i])
		}
	}
}

// LogDiagonal returns log det L.
func LogDiagonal(low []float64, n int) (sum float64) {
	for k := range n {
		sum += math.Log(low[k*n+k])
	}
	return sum
}

// WidthFactor is (N/target)^(2/(d_P+4)): what a C_L that was learnt from N neighbours is multiplied by to become
// that of target neighbours. The best kernel covariance shrinks as N^(−2/(d_P+4)), a pure factor.
func WidthFactor(neighbours, target, parzen int) float64 {
	return math.Pow(float64(neighbours)/float64(target), 2/float64(parzen+4))
}
