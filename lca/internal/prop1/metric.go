package prop1

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Family is a set of covariances that the Parzen part's Σ is confined to, with the exact M-step of both
// models of the paper in it. A metric of the configuration is a family. To add one, write its two methods, list it in
// families, and give it a constant and a name in lca/kinds.go; tests say what else names it.
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
	if parzen == Auto {
		parzen = parzenColumns(e, f.rank)
	}
	level(e[:parzen], parzen-f.rank)
	b := Assemble(m1InverseRoot, u, e, parzen)
	sigma, err := covarianceOf(b)
	return b, sigma, err
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
