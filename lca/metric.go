package lca

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// project is the exact M-step of plain LCA in a family of metrics: the Σ of the family that
// minimises tr Σ⁻¹ C + log det Σ.
//
//	full       C                                             (eq. 5)
//	diagonal   diag(C)                                       (section 6.2)
//	isotropic  (tr C / d) I                                  (section 6.2: "the same trace")
//	low rank   V diag(w₁ … w_k, σ², …, σ²) Vᵀ, top k eigenpairs of C and σ² the mean of the
//	           others: probabilistic PCA of C                (section 3, end)
//
// c is not changed; the full metric returns c itself.
func project(metric Metric, rank int, c *mat.SymDense) (*mat.SymDense, error) {
	d := c.SymmetricDim()
	switch metric {
	case MetricFull:
		return c, nil
	case MetricDiagonal:
		return diagonalOf(c), nil
	case MetricIsotropic:
		s := mat.NewSymDense(d, nil)
		for i := range d {
			s.SetSym(i, i, mat.Trace(c)/float64(d))
		}
		return s, nil
	case MetricLowRank:
		w, v, err := eigenSym(c)
		if err != nil {
			return nil, fmt.Errorf("lca: low-rank metric: %w", err)
		}
		level(w, d-min(rank, d))
		return spectral(v, w, func(l float64) float64 { return l }), nil
	}
	return nil, fmt.Errorf("lca: unknown Metric %d", metric)
}

// splitWithin is Proposition 1 when the Parzen covariance is confined to a family of metrics.
// The full metric is split itself. The others, which the paper leaves open for LCA-Gauss:
//
//	diagonal             both parts along the input's axes: e_k = M₂,kk / M₁,kk
//	isotropic, low rank  in the coordinates where M₁ = I, the Parzen part has one variance for
//	                     all its directions, or for all but its k widest
//
// Each minimises eq. 7 exactly within its family (see parzenColumns), so EM stays monotone.
func splitWithin(metric Metric, rank int, m1, m1InverseRoot, m2 *mat.SymDense, parzen int) (parts, error) {
	switch metric {
	case MetricDiagonal:
		root, err := inverseRoot(diagonalOf(m1))
		if err != nil {
			return parts{}, fmt.Errorf("lca: diagonal of C_G: %w", err)
		}
		return split(root, diagonalOf(m2), parzen)
	case MetricIsotropic:
		rank = 0
	case MetricFull:
		return split(m1InverseRoot, m2, parzen)
	}
	e, u, err := ratios(m1InverseRoot, m2)
	if err != nil {
		return parts{}, err
	}
	if parzen == Auto {
		parzen = parzenColumns(e, rank)
	}
	level(e[:parzen], parzen-rank)
	return assemble(m1InverseRoot, u, e, parzen), nil
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
