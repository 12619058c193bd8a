// Package linalg holds the dense factorisations of an M-step on flat, row-major float64 matrices:
// Cholesky factors of C_G and C_L, their inverses, and the symmetric eigendecomposition of
// Proposition 1. Matrices are n×n, element (i, j) at a[i·n+j]; of a symmetric argument only the
// lower triangle is read.
//
// Why not gonum/mat: its EigenSym iterates on one thread and takes 4 s and more for a random matrix of order 512, of which
// this one needs 0.1 s; and its loops add in another order on another architecture, where our bits must stay the same.
package linalg

import (
	"errors"
	"fmt"
)

// ErrNotPositiveDefinite is wrapped by CholeskyLower when a pivot is not a positive number:
// the caller has too few rows for its columns, or a constant column, or NaN.
var ErrNotPositiveDefinite = errors.New("matrix is not positive definite")

func check(what string, a []float64, n int) {
	if n < 0 || len(a) < n*n {
		panic(fmt.Sprintf("linalg: %s of order %d on %d numbers", what, n, len(a)))
	}
}
