package lca

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// errSingular marks a covariance without an inverse root: too few rows, collinear columns or
// copies of rows, and no ν to make up for it.
var errSingular = errors.New("matrix is not positive definite")

// mStep minimises the bound of section 4 (eq. 6, or eq. 2 for plain LCA) for fixed λ: it returns
// B_G and B_L, and the C_L they belong to, which is the family's Σ and not the raw average.
//
//	m1  C_G + ν_g I      m1InverseRoot  its I_G, from inverseRoot
//	m2  C_L + ν I: ν is added when the metric is built and never accumulated in C_L
//
// parzen fixes d_P; Auto lets Proposition 1 cut at e = 1. Plain LCA has no Gaussian part; its
// columns are still ordered by e, so that both kinds read alike.
func mStep(kind Kind, metric Metric, rank int, m1, m1InverseRoot, m2 *mat.SymDense, parzen int) (parts, *mat.SymDense, error) {
	if kind == KindLCA {
		sigma, err := project(metric, rank, m2)
		if err != nil {
			return parts{}, nil, err
		}
		b, err := split(m1InverseRoot, sigma, sigma.SymmetricDim())
		return b, sigma, err
	}
	b, err := splitWithin(metric, rank, m1, m1InverseRoot, m2, parzen)
	if err != nil {
		return parts{}, nil, err
	}
	if metric == MetricFull {
		return b, m2, nil
	}
	sigma, err := covarianceOf(b)
	return b, sigma, err
}

// covarianceOf returns the C_L + ν I that a split belongs to: M₁^½ U diag(e) Uᵀ M₁^½ with the e of
// the family, which is B^(−T) diag(1 … 1, e_G) B⁻¹ for B = (B_L, B_G), since B_L carries its e already.
func covarianceOf(b parts) (*mat.SymDense, error) {
	d := len(b.Ratio)
	inverse, err := b.inverse()
	if err != nil {
		return nil, err
	}
	scaled := mat.DenseCopyOf(inverse)
	for k := columns(b.BL); k < d; k++ {
		for j := range d {
			scaled.Set(k, j, scaled.At(k, j)*b.Ratio[k])
		}
	}
	var sigma mat.Dense
	linalg.Mul(&sigma, inverse.T(), scaled)
	return symmetric(&sigma), nil
}

// joined returns (B_L, B_G), d×d.
func (b parts) joined() *mat.Dense {
	switch {
	case columns(b.BG) == 0:
		return mat.DenseCopyOf(b.BL)
	case columns(b.BL) == 0:
		return mat.DenseCopyOf(b.BG)
	}
	var all mat.Dense
	all.Augment(b.BL, b.BG)
	return &all
}

// inverse returns (B_L, B_G)⁻¹. Columns of very different length are what B is made of, and cost no
// digits: each is divided by its length first.
func (b parts) inverse() (*mat.Dense, error) {
	all := b.joined()
	_, d := all.Dims()
	lengths := make([]float64, d)
	for k := range lengths {
		lengths[k] = mat.Norm(all.ColView(k), 2)
	}
	all.Apply(func(_, k int, v float64) float64 { return v / lengths[k] }, all)
	var inverse mat.Dense
	if err := inverse.Inverse(all); err != nil {
		return nil, fmt.Errorf("lca: inverse of (B_L, B_G): %w", errSingular)
	}
	inverse.Apply(func(k, _ int, v float64) float64 { return v / lengths[k] }, &inverse)
	return &inverse, nil
}

// ridge returns c + ν I.
func ridge(c *mat.SymDense, nu float64) *mat.SymDense {
	s := mat.NewSymDense(c.SymmetricDim(), nil)
	s.CopySym(c)
	for i := range c.SymmetricDim() {
		s.SetSym(i, i, s.At(i, i)+nu)
	}
	return s
}
