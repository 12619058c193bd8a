package prop1

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// Span is a row-major matrix; what counts is the space that its columns span.
type Span struct {
	Data    []float64
	Columns int
}

// Spans compares two spans. Its fields are buffers, and what the last call left in them.
type Spans struct {
	q                                  [2][]float64
	Product, inner, Low, cosines, gram []float64
	values, vectors                    []float64
}

// Angles returns all principal angles between the spans of a and b, in radians, ascending, for whitened rows:
// acos of the singular values of Q_aᵀ C Q_b with Qᵀ C Q = I. There are as many as the smaller span has
// dimensions; none where C is singular on one of them. The result is valid until the next call.
func (s *Spans) Angles(a, b Span, d int, cov []float64, w *linalg.Workspace) []float64 {
	if a.Columns < b.Columns { // of the two Gram matrices, the smaller has the same squares
		a, b = b, a
	}
	n := b.Columns
	if !s.orthonormal(0, a, d, cov, w) || !s.orthonormal(1, b, d, cov, w) {
		return nil
	}
	// product is C b, so that C Q_b = C b L⁻ᵀ.
	w.SolveRight(linalg.Dense(s.Low, n), s.Product, n, n, d)
	s.cosines, s.gram = linalg.Resize(s.cosines, a.Columns*n), linalg.Resize(s.gram, n*n)
	w.Product(s.cosines, n, linalg.Dense(s.q[0], a.Columns).T(), linalg.Dense(s.Product, n), a.Columns, n, d, linalg.Set)
	c := linalg.Dense(s.cosines, n)
	w.Product(s.gram, n, c.T(), c, n, n, a.Columns, linalg.Set)
	symmetrise(s.gram, n)
	s.values, s.vectors = linalg.Resize(s.values, n), linalg.Resize(s.vectors, n*n)
	if w.EigenSym(s.values, s.vectors, s.gram, n) != nil {
		return nil
	}
	for i, j := 0, n-1; i <= j; i, j = i+1, j-1 {
		s.values[i], s.values[j] = arc(s.values[j]), arc(s.values[i])
	}
	return s.values
}

func arc(square float64) float64 { return math.Acos(math.Sqrt(min(max(square, 0), 1))) }

// Factor sets product to C a and low to the Cholesky factor of aᵀ C a.
func (s *Spans) Factor(a Span, d int, cov []float64, w *linalg.Workspace) error {
	n := a.Columns
	s.Product, s.inner, s.Low = linalg.Resize(s.Product, d*n), linalg.Resize(s.inner, n*n), linalg.Resize(s.Low, n*n)
	m := linalg.Dense(a.Data, n)
	w.Product(s.Product, n, linalg.Dense(cov, d), m, d, n, d, linalg.Set)
	w.Product(s.inner, n, m.T(), linalg.Dense(s.Product, n), n, n, d, linalg.Set)
	symmetrise(s.inner, n)
	_, err := Factor(s.Low, s.inner, n, w)
	return err
}

// orthonormal sets s.q[k] to columns of the same span with QᵀCQ = I, with product and low as factor leaves them;
// it is false where C is singular on it.
func (s *Spans) orthonormal(k int, a Span, d int, cov []float64, w *linalg.Workspace) bool {
	if s.Factor(a, d, cov, w) != nil {
		return false
	}
	n := a.Columns
	s.q[k] = append(s.q[k][:0], a.Data[:d*n]...)
	w.SolveRight(linalg.Dense(s.Low, n), s.q[k], n, n, d)
	return true
}
