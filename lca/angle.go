package lca

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// span is a matrix of some columns, row by row.
type span struct {
	data    []float64
	columns int
}

// spans are the buffers for comparing two.
type spans struct {
	q                                  [2][]float64
	product, inner, low, cosines, gram []float64
	values, vectors                    []float64
}

// angles returns all principal angles between the spans of a and b, in radians, ascending, for whitened rows:
// acos of the singular values of Q_aᵀ C Q_b with Qᵀ C Q = I. There are as many as the smaller span has
// dimensions; none where they cannot be told. The result is valid until the next call.
func (s *spans) angles(a, b span, d int, cov []float64, w *linalg.Workspace) []float64 {
	if a.columns < b.columns { // of the two Gram matrices, the smaller has the same squares
		a, b = b, a
	}
	n := b.columns
	if !s.orthonormal(0, a, d, cov, w) || !s.orthonormal(1, b, d, cov, w) {
		return nil
	}
	// product is C b, so that C Q_b = C b L⁻ᵀ.
	w.SolveRight(linalg.Dense(s.low, n), s.product, n, n, d)
	s.cosines, s.gram = resize(s.cosines, a.columns*n), resize(s.gram, n*n)
	w.Product(s.cosines, n, linalg.Dense(s.q[0], a.columns).T(), linalg.Dense(s.product, n), a.columns, n, d, linalg.Set)
	c := linalg.Dense(s.cosines, n)
	w.Product(s.gram, n, c.T(), c, n, n, a.columns, linalg.Set)
	symmetrise(s.gram, n)
	s.values, s.vectors = resize(s.values, n), resize(s.vectors, n*n)
	if w.EigenSym(s.values, s.vectors, s.gram, n) != nil {
		return nil
	}
	for i, j := 0, n-1; i <= j; i, j = i+1, j-1 {
		s.values[i], s.values[j] = arc(s.values[j]), arc(s.values[i])
	}
	return s.values
}

func arc(square float64) float64 { return math.Acos(math.Sqrt(min(max(square, 0), 1))) }

// factor sets product to C a and low to the Cholesky factor of aᵀ C a.
func (s *spans) factor(a span, d int, cov []float64, w *linalg.Workspace) error {
	n := a.columns
	s.product, s.inner, s.low = resize(s.product, d*n), resize(s.inner, n*n), resize(s.low, n*n)
	m := linalg.Dense(a.data, n)
	w.Product(s.product, n, linalg.Dense(cov, d), m, d, n, d, linalg.Set)
	w.Product(s.inner, n, m.T(), linalg.Dense(s.product, n), n, n, d, linalg.Set)
	symmetrise(s.inner, n)
	_, err := factor(s.low, s.inner, n, w)
	return err
}

// orthonormal sets s.q[k] to columns of the same span with QᵀCQ = I, with product and low as factor leaves them;
// it is false where C is singular on it.
func (s *spans) orthonormal(k int, a span, d int, cov []float64, w *linalg.Workspace) bool {
	if s.factor(a, d, cov, w) != nil {
		return false
	}
	n := a.columns
	s.q[k] = append(s.q[k][:0], a.data[:d*n]...)
	w.SolveRight(linalg.Dense(s.low, n), s.q[k], n, n, d)
	return true
}
