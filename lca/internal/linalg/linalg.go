// Package linalg holds the dense factorisations of an M-step on flat, row-major float64 matrices:
// Cholesky factors of C_G and C_L, their inverses, and the symmetric eigendecomposition of
// Proposition 1. Matrices are n×n, element (i, j) at a[i·n+j]; of a symmetric argument only the
// lower triangle is read.
package linalg

import (
	"errors"
	"fmt"
	"math"
)

// ErrNotPositiveDefinite is wrapped by CholeskyLower and SymRoot when a pivot is not a positive number:
// the caller has too few rows for its columns, or a constant column, or NaN.
var ErrNotPositiveDefinite = errors.New("matrix is not positive definite")

// SymRoot returns a^½ and a^−½ of the symmetric positive definite a.
func SymRoot(a []float64, n int) (root, inverse []float64, err error) {
	values, vectors, err := EigenSym(a, n)
	if err != nil {
		return nil, nil, err
	}
	root, inverse = make([]float64, n*n), make([]float64, n*n)
	left, right := make([]float64, n*n), make([]float64, n*n) // V diag(e^½) and V diag(e^−½)
	for k, e := range values {
		if !(e > 0) {
			return nil, nil, fmt.Errorf("linalg: root of order %d, eigenvalue %d is %g: %w", n, k, e, ErrNotPositiveDefinite)
		}
		r := math.Sqrt(e)
		for i := range n {
			left[i*n+k], right[i*n+k] = vectors[i*n+k]*r, vectors[i*n+k]/r
		}
	}
	w := Borrow()
	defer w.Return()
	w.Product(root, n, Dense(left, n), Dense(vectors, n).T(), n, n, n, Set)
	w.Product(inverse, n, Dense(right, n), Dense(vectors, n).T(), n, n, n, Set)
	for i := range n { // the products are symmetric but for rounding
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
