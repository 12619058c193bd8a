package prop1

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

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
	m.Mul(varying, varying.T())
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
	got.Mul(w.T(), w)
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
