package prop1

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// ErrSingular marks a covariance without an inverse root: too few rows, collinear columns or
// copies of rows, and no ν to make up for it.
var ErrSingular = errors.New("matrix is not positive definite")

// MStep is the M-step of a model in a family of metrics.
type MStep struct {
	Family Family
	Plain  bool // plain LCA: there is no Gaussian part, all directions are Parzen
}

// Solve minimises the bound of section 4 (eq. 6, or eq. 2 for plain LCA) for fixed λ: it returns
// B_G and B_L, and the C_L they belong to, which is the family's Σ and not the raw average.
//
//	m1  C_G + ν_g I      m1InverseRoot  its I_G, from InverseRoot
//	m2  C_L + ν I: ν is added when the metric is built and never accumulated in C_L
//
// parzen fixes d_P; Auto lets Proposition 1 cut at e = 1. The columns of plain LCA are still ordered by e, so
// that both models read alike.
func (m MStep) Solve(m1, m1InverseRoot, m2 *mat.SymDense, parzen int) (Parts, *mat.SymDense, error) {
	if !m.Plain {
		return m.Family.Split(m1, m1InverseRoot, m2, parzen)
	}
	sigma, err := m.Family.Project(m2)
	if err != nil {
		return Parts{}, nil, err
	}
	b, err := Split(m1InverseRoot, sigma, sigma.SymmetricDim())
	return b, sigma, err
}

// covarianceOf returns the C_L + ν I that a split belongs to: M₁^½ U diag(e) Uᵀ M₁^½ with the e of
// the family, which is B^(−T) diag(1 … 1, e_G) B⁻¹ for B = (B_L, B_G), since B_L carries its e already.
func covarianceOf(b Parts) (*mat.SymDense, error) {
	d := len(b.Ratio)
	inverse, err := b.Inverse()
	if err != nil {
		return nil, err
	}
	scaled := mat.DenseCopyOf(inverse)
	for k := Columns(b.BL); k < d; k++ {
		for j := range d {
			scaled.Set(k, j, scaled.At(k, j)*b.Ratio[k])
		}
	}
	var sigma mat.Dense
	linalg.Mul(&sigma, inverse.T(), scaled)
	return Symmetric(&sigma), nil
}

// Joined returns (B_L, B_G), d×d.
func (b Parts) Joined() *mat.Dense {
	switch {
	case Columns(b.BG) == 0:
		return mat.DenseCopyOf(b.BL)
	case Columns(b.BL) == 0:
		return mat.DenseCopyOf(b.BG)
	}
	var all mat.Dense
	all.Augment(b.BL, b.BG)
	return &all
}

// Weighted returns (B_L, B_G) with each column times √(1−e), and 0 where e is 1 or more.
func (b Parts) Weighted() *mat.Dense {
	all := b.Joined()
	all.Apply(func(_, k int, v float64) float64 { return v * math.Sqrt(max(0, 1-b.Ratio[k])) }, all)
	return all
}

// Inverse returns (B_L, B_G)⁻¹. Columns of very different length are what B is made of, and cost no
// digits: each is divided by its length first.
func (b Parts) Inverse() (*mat.Dense, error) {
	all := b.Joined()
	_, d := all.Dims()
	lengths := make([]float64, d)
	for k := range lengths {
		lengths[k] = mat.Norm(all.ColView(k), 2)
	}
	all.Apply(func(_, k int, v float64) float64 { return v / lengths[k] }, all)
	var inverse mat.Dense
	if err := inverse.Inverse(all); err != nil {
		return nil, fmt.Errorf("lca: inverse of (B_L, B_G): %w", ErrSingular)
	}
	inverse.Apply(func(k, _ int, v float64) float64 { return v / lengths[k] }, &inverse)
	return &inverse, nil
}

// Ridge returns c + ν I.
func Ridge(c *mat.SymDense, nu float64) *mat.SymDense {
	s := mat.NewSymDense(c.SymmetricDim(), nil)
	s.CopySym(c)
	for i := range c.SymmetricDim() {
		s.SetSym(i, i, s.At(i, i)+nu)
	}
	return s
}
