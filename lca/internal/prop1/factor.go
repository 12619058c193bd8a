package prop1

import (
	"fmt"
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

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
