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

// Family is a set of covariances that the Parzen part's Σ is confined to, with the exact M-step of both
// models of the paper in it. A metric of the configuration is a family. To add one, write its two methods, list it in
// families, and give it a constant and a name in lca/config.go; tests say what else names it.
type Family interface {
	// Project is the M-step of plain LCA: the Σ of the family that minimises tr Σ⁻¹ C + log det Σ. It does
	// not change c, and may return it.
	Project(c *mat.SymDense) (*mat.SymDense, error)
	// Split is Proposition 1 with the Parzen covariance confined to the family: B_G and B_L, and the
	// C_L + ν I that they belong to. Its parameters are those of MStep.Solve.
	Split(m1, m1InverseRoot, m2 *mat.SymDense, parzen int) (Parts, *mat.SymDense, error)
}

// families are the metrics by the names that the configuration uses.
var families = map[string]func(rank int) Family{
	"full":      func(int) Family { return full{} },
	"diagonal":  func(int) Family { return diagonal{} },
	"isotropic": func(int) Family { return isotropic{} },
	"low_rank":  func(rank int) Family { return lowRank{rank} },
}

// FamilyOf returns the family of a metric. rank is that of "low_rank"; the others ignore it.
func FamilyOf(metric string, rank int) (Family, error) {
	if of, ok := families[metric]; ok {
		return of(rank), nil
	}
	return nil, fmt.Errorf("lca: metric %q has no M-step", metric)
}

// full is every covariance: Σ = C (eq. 5), and the split of Proposition 1 itself.
type full struct{}

func (full) Project(c *mat.SymDense) (*mat.SymDense, error) { return c, nil }

func (full) Split(_, m1InverseRoot, m2 *mat.SymDense, parzen int) (Parts, *mat.SymDense, error) {
	b, err := Split(m1InverseRoot, m2, parzen)
	return b, m2, err
}

// diagonal is Σ = diag(C) (section 6.2). Both parts lie along the input's axes: e_k = M₂,kk / M₁,kk.
type diagonal struct{}

func (diagonal) Project(c *mat.SymDense) (*mat.SymDense, error) { return diagonalOf(c), nil }

func (diagonal) Split(m1, _, m2 *mat.SymDense, parzen int) (Parts, *mat.SymDense, error) {
	root, err := InverseRoot(diagonalOf(m1))
	if err != nil {
		return Parts{}, nil, fmt.Errorf("lca: diagonal of C_G: %w", err)
	}
	b, err := Split(root, diagonalOf(m2), parzen)
	if err != nil {
		return Parts{}, nil, err
	}
	sigma, err := covarianceOf(b)
	return b, sigma, err
}

// isotropic is Σ = (tr C / d) I (section 6.2: "the same trace"). In the coordinates where M₁ = I all
// directions of the Parzen part have one variance: it splits as a low-rank metric of rank 0.
type isotropic struct{}

func (isotropic) Project(c *mat.SymDense) (*mat.SymDense, error) {
	d := c.SymmetricDim()
	s := mat.NewSymDense(d, nil)
	for i := range d {
		s.SetSym(i, i, mat.Trace(c)/float64(d))
	}
	return s, nil
}

func (isotropic) Split(m1, m1InverseRoot, m2 *mat.SymDense, parzen int) (Parts, *mat.SymDense, error) {
	return lowRank{0}.Split(m1, m1InverseRoot, m2, parzen)
}

// lowRank is Σ = V diag(w₁ … w_k, σ², …, σ²) Vᵀ with the top k = rank eigenpairs of C and σ² the mean of
// the others: probabilistic PCA of C (section 3, end).
type lowRank struct{ rank int }

func (f lowRank) Project(c *mat.SymDense) (*mat.SymDense, error) {
	d := c.SymmetricDim()
	w, v, err := eigenSym(c)
	if err != nil {
		return nil, fmt.Errorf("lca: low-rank metric: %w", err)
	}
	level(w, d-min(f.rank, d))
	return spectral(v, w, func(l float64) float64 { return l }), nil
}

// Split works in the coordinates where M₁ = I: there the Parzen part has one variance for all its directions
// but the k widest. The paper leaves this open for LCA-Gauss. It minimises eq. 7 exactly within the family
// (see parzenColumns), so EM stays monotone.
func (f lowRank) Split(_, m1InverseRoot, m2 *mat.SymDense, parzen int) (Parts, *mat.SymDense, error) {
	e, u, err := ratios(m1InverseRoot, m2)
	if err != nil {
		return Parts{}, nil, err
	}
	parzen = LevelRatios(e, f.rank, parzen)
	b := Assemble(m1InverseRoot, u, e, parzen)
	sigma, err := covarianceOf(b)
	return b, sigma, err
}

// LevelRatios sets ascending e to those of a covariance of which all Parzen directions but the widest, as many as the rank, share a variance. It returns
// d_P, which is the best for Auto.
func LevelRatios(e []float64, rank, parzen int) int {
	if parzen == Auto {
		parzen = parzenColumns(e, rank)
	}
	level(e[:parzen], parzen-rank)
	return parzen
}

// parzenColumns is the best number of Parzen directions when all but the k widest share one
// variance. Taking the m smallest e costs, against giving them to the Gaussian, the change
//
//	(m−k) log mean(e₁ … e_{m−k}) + Σ log(the k following e)
//
// of the bound; with k ≥ m this is Proposition 1's Σ log e, whose best m is the cut at 1.
func parzenColumns(e []float64, rank int) int {
	best, bestCost, sum, logs := 0, 0.0, 0.0, 0.0
	for m := 1; m <= len(e); m++ {
		logs += math.Log(e[m-1])
		shared := m - rank
		if shared >= 1 {
			sum += e[shared-1]
			logs -= math.Log(e[shared-1])
		}
		cost := logs
		if shared >= 1 {
			cost += float64(shared) * math.Log(sum/float64(shared))
		}
		if cost < bestCost {
			best, bestCost = m, cost
		}
	}
	return best
}

// level replaces the first n of w by their mean; n < 1 leaves w alone.
func level(w []float64, n int) {
	if n < 1 {
		return
	}
	mean := 0.0
	for _, v := range w[:n] {
		mean += v / float64(n)
	}
	for i := range w[:n] {
		w[i] = mean
	}
}

func diagonalOf(c *mat.SymDense) *mat.SymDense {
	d := c.SymmetricDim()
	s := mat.NewSymDense(d, nil)
	for i := range d {
		s.SetSym(i, i, c.At(i, i))
	}
	return s
}
