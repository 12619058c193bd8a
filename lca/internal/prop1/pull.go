package prop1

import (
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// RoundingRidge keeps ν C_G positive definite where columns are collinear: this share of each column's variance is added
// to both covariances. In a direction that only rounding fills both are then the ridge alone, and e is 1.
const RoundingRidge = 1e-12

// Pull is the matrix that ν adds to a covariance: the identity, or C_G where CG is set. Scores with the latter do not
// change under an affine change of basis, and a direction that is thin as a whole, as that of a relation between
// columns is, is not held wide by columns that are not.
type Pull struct{ CG *mat.SymDense }

// Add returns c + ν I or c + ν C_G.
func (p Pull) Add(c *mat.SymDense, nu float64) *mat.SymDense {
	if p.CG == nil {
		return Ridge(c, nu)
	}
	d := c.SymmetricDim()
	return mat.NewSymDense(d, AddCovariance(linalg.Elements(c), linalg.Elements(p.CG), d, nu))
}

// Penalty returns ν tr BᵀB or ν tr Bᵀ C_G B: twice what ν adds to the objective.
func (p Pull) Penalty(b *mat.Dense, nu float64) float64 {
	columns := Columns(b)
	if columns == 0 {
		return 0
	}
	if p.CG == nil {
		f := mat.Norm(b, 2)
		return nu * (f * f)
	}
	var along mat.Dense
	linalg.Mul(&along, p.Add(mat.NewSymDense(b.RawMatrix().Rows, nil), nu), b)
	sum := 0.0
	for k := range columns {
		sum += mat.Dot(along.ColView(k), b.ColView(k))
	}
	return sum
}

// AddCovariance adds ν C_G, and the ridge of rounding, to the n×n matrix a, and returns it.
func AddCovariance(a, cg []float64, n int, nu float64) []float64 {
	for k, v := range cg[:n*n] {
		a[k] += float64(nu * v)
	}
	for k := range n {
		a[k*n+k] += float64(RoundingRidge * cg[k*n+k])
	}
	return a
}

// WithoutCovariance returns C_L and C_G from C_L + ν C_G and C_G + ν_g C_G, both with the ridge of rounding.
func WithoutCovariance(cl, cg []float64, n int, nu, nuGaussian float64) (withoutNu, global []float64) {
	global, withoutNu = append([]float64(nil), cg...), append([]float64(nil), cl...)
	for k := range n {
		global[k*n+k] *= (1 + nuGaussian) / (1 + nuGaussian + RoundingRidge)
	}
	for k := range global {
		global[k] /= 1 + nuGaussian
	}
	for k, v := range global {
		withoutNu[k] -= nu * v
	}
	for k := range n {
		withoutNu[k*n+k] -= RoundingRidge * global[k*n+k]
	}
	return withoutNu, global
}
