// Package linalg holds the dense factorisations of an M-step on flat, row-major float64 matrices:
// Cholesky factors of C_G and C_L, their inverses, and the symmetric eigendecomposition of
// Proposition 1. Matrices are n×n, element (i, j) at a[i·n+j]; of a symmetric argument only the
// lower triangle is read.
package linalg

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// ErrNotPositiveDefinite is wrapped by CholeskyLower and SymRoot when a pivot is not a positive number:
// the caller has too few rows for its columns, or a constant column, or NaN.
var ErrNotPositiveDefinite = errors.New("matrix is not positive definite")

// ErrNotFinite is wrapped by EigenSym and SymRoot when the matrix holds NaN or Inf.
var ErrNotFinite = errors.New("matrix is not finite")

// CholeskyLower overwrites the symmetric a by its lower factor L, a = L Lᵀ, with zeros above the
// diagonal. On error a is left as it was.
func CholeskyLower(a []float64, n int) error {
	check("CholeskyLower", a, n)
	var c mat.Cholesky
	if n == 0 {
		return nil
	}
	if !c.Factorize(symmetric(a, n)) {
		return fmt.Errorf("linalg: Cholesky factor of order %d: %w", n, ErrNotPositiveDefinite)
	}
	var l mat.TriDense
	c.LTo(&l)
	for i := range n {
		for j := range n {
			a[i*n+j] = l.At(i, j)
		}
	}
	return nil
}

// InvertLower overwrites the lower triangular l by its inverse, with zeros above the diagonal.
// A zero on the diagonal is a programming error: factors of CholeskyLower have none.
func InvertLower(l []float64, n int) {
	check("InvertLower", l, n)
	for j := range n {
		if l[j*n+j] == 0 {
			panic(fmt.Sprintf("linalg: InvertLower of order %d with zero pivot %d", n, j))
		}
	}
	for i := range n {
		// Row i of the inverse: −(1/l_ii) Σ_{k<i} l_ik · (row k of the inverse).
		inv := 1 / l[i*n+i]
		row := l[i*n:][:n]
		for j := 0; j < i; j++ {
			var s float64
			for k := j; k < i; k++ {
				s = math.FMA(row[k], l[k*n+j], s)
			}
			// row[j] is read again only for columns below j, which are done.
			row[j] = -s * inv
		}
		row[i] = inv
		clear(row[i+1:])
	}
}

// EigenSym returns the eigenvalues of the symmetric a, ascending, and its orthonormal
// eigenvectors as the columns of an n×n matrix. Signs are canonical: the component of largest
// magnitude (the first of equals) is positive. a is not changed.
func EigenSym(a []float64, n int) (values, vectors []float64, err error) {
	check("EigenSym", a, n)
	values, vectors = make([]float64, n), make([]float64, n*n)
	if n == 0 {
		return values, vectors, nil
	}
	for i := range n {
		for _, v := range a[i*n:][:i+1] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, nil, fmt.Errorf("linalg: eigenvalues of order %d: %w", n, ErrNotFinite)
			}
		}
	}
	var e mat.EigenSym
	if !e.Factorize(symmetric(a, n), true) {
		return nil, nil, fmt.Errorf("linalg: eigenvalues of order %d did not converge", n)
	}
	e.Values(values)
	e.VectorsTo(mat.NewDense(n, n, vectors))
	CanonicalSigns(vectors, n)
	return values, vectors, nil
}

// CanonicalSigns turns each column so that its component of largest magnitude is positive.
func CanonicalSigns(vectors []float64, n int) {
	for j := range n {
		top := 0.0
		for i := range n {
			if v := vectors[i*n+j]; math.Abs(v) > math.Abs(top) {
				top = v
			}
		}
		if top < 0 {
			for i := range n {
				vectors[i*n+j] = -vectors[i*n+j]
			}
		}
	}
}

// SymRoot returns a^½ and a^−½ of the symmetric positive definite a.
func SymRoot(a []float64, n int) (root, inverse []float64, err error) {
	values, vectors, err := EigenSym(a, n)
	if err != nil {
		return nil, nil, err
	}
	root, inverse = make([]float64, n*n), make([]float64, n*n)
	for k, e := range values {
		if !(e > 0) {
			return nil, nil, fmt.Errorf("linalg: root of order %d, eigenvalue %d is %g: %w", n, k, e, ErrNotPositiveDefinite)
		}
		r := math.Sqrt(e)
		for i := range n {
			for j := range i + 1 {
				v := vectors[i*n+k] * vectors[j*n+k]
				root[i*n+j] = math.FMA(v, r, root[i*n+j])
				inverse[i*n+j] = math.FMA(v, 1/r, inverse[i*n+j])
			}
		}
	}
	for i := range n {
		for j := range i {
			root[j*n+i], inverse[j*n+i] = root[i*n+j], inverse[i*n+j]
		}
	}
	return root, inverse, nil
}

func check(what string, a []float64, n int) {
	if n < 0 || len(a) < n*n {
		panic(fmt.Sprintf("linalg: %s of order %d on %d numbers", what, n, len(a)))
	}
}

// symmetric copies the lower triangle into gonum's form, which reads the upper one.
func symmetric(a []float64, n int) *mat.SymDense {
	s := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i + 1 {
			s.SetSym(i, j, a[i*n+j])
		}
	}
	return s
}
