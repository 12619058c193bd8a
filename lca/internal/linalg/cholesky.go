package linalg

import (
	"fmt"
	"math"
)

// triangleBlock is the order of the diagonal blocks that are factored and inverted by plain loops.
const triangleBlock = 32

// CholeskyLower overwrites the symmetric a by its lower factor L, a = L Lᵀ, with zeros above the
// diagonal. On error a is left as it was.
//
// Columns are taken in blocks, left-looking: what the columns before contribute is one product, the
// block on the diagonal is factored by loops, and the rows below are multiplied by its inverse.
func CholeskyLower(a []float64, n int) error {
	check("CholeskyLower", a, n)
	w := Borrow()
	defer w.Return()
	l := make([]float64, n*n)
	for i := range n {
		copy(l[i*n:][:i+1], a[i*n:])
	}
	var inverse, below [triangleBlock * triangleBlock]float64
	column := below[:]
	for j := 0; j < n; j += triangleBlock {
		size := min(triangleBlock, n-j)
		done := Dense(l, n).at(j, 0)
		w.Product(l[j*n+j:], n, done, done.T(), n-j, size, j, Subtract)
		if bad := choleskyBlock(l[j*n+j:], n, size); bad >= 0 {
			return fmt.Errorf("linalg: Cholesky factor of order %d, pivot %d: %w", n, j+bad, ErrNotPositiveDefinite)
		}
		rows := n - j - size
		if rows == 0 {
			break
		}
		invertBlock(inverse[:], size, l[j*n+j:], n, size)
		column = resize(column, rows*size)
		for i := range rows {
			copy(column[i*size:][:size], l[(j+size+i)*n+j:])
		}
		w.Product(l[(j+size)*n+j:], n, Dense(column, size), Dense(inverse[:], size).T(), rows, size, size, Set)
	}
	copy(a, l)
	return nil
}

// choleskyBlock factors the lower triangle of a block and clears what is above it. It returns the
// first pivot that is not a positive number, or −1.
func choleskyBlock(a []float64, ld, n int) (bad int) {
	for i := range n {
		row := a[i*ld:][:n]
		for j := range i {
			other := a[j*ld:][:j+1]
			row[j] = (row[j] - dot(row[:j], other[:j])) / other[j]
		}
		pivot := row[i] - dot(row[:i], row[:i])
		if !(pivot > 0) || math.IsInf(pivot, 1) {
			return i
		}
		row[i] = math.Sqrt(pivot)
		clear(row[i+1:])
	}
	return -1
}

// dot sums in four chains, by index mod 4.
func dot(x, y []float64) float64 {
	var s [4]float64
	y = y[:len(x)]
	for ; len(x) >= 4; x, y = x[4:], y[4:] {
		s[0], s[1] = math.FMA(x[0], y[0], s[0]), math.FMA(x[1], y[1], s[1])
		s[2], s[3] = math.FMA(x[2], y[2], s[2]), math.FMA(x[3], y[3], s[3])
	}
	for k, v := range x {
		s[k] = math.FMA(v, y[k], s[k])
	}
	return (s[0] + s[2]) + (s[1] + s[3])
}

// invertBlock writes the inverse of the lower triangle of l into dst, zeros above.
func invertBlock(dst []float64, ldd int, l []float64, ldl, n int) {
	for i := range n {
		row, to := l[i*ldl:][:i+1], dst[i*ldd:][:n]
		inv := 1 / row[i]
		clear(to)
		// Row i is −(1/l_ii) Σ_{k<i} l_ik · (row k of the inverse).
		for k, v := range row[:i] {
			for j, x := range dst[k*ldd:][:k+1] {
				to[j] = math.FMA(v, x, to[j])
			}
		}
		for j := range to[:i] {
			to[j] *= -inv
		}
		to[i] = inv
	}
}

// InvertLower overwrites the lower triangular l by its inverse, with zeros above the diagonal.
// A zero on the diagonal is a programming error: factors of CholeskyLower have none.
//
// Rows are taken in blocks: block i of the inverse is −L_ii⁻¹ (Σ_{k<i} L_ik · block k).
func InvertLower(l []float64, n int) {
	check("InvertLower", l, n)
	const columns = 128 // of the sum at a time: above its diagonal a column of the inverse is zero
	w := Borrow()
	defer w.Return()
	var inverse [triangleBlock * triangleBlock]float64
	sum := make([]float64, triangleBlock*n)
	for i := 0; i < n; i += triangleBlock {
		size := min(triangleBlock, n-i)
		for k := i; k < i+size; k++ {
			if l[k*n+k] == 0 {
				panic(fmt.Sprintf("linalg: InvertLower of order %d with zero pivot %d", n, k))
			}
		}
		invertBlock(inverse[:], size, l[i*n+i:], n, size)
		for j := 0; j < i; j += columns {
			w.Product(sum[j:], n, Dense(l, n).at(i, j), Dense(l, n).at(j, j), size, min(columns, i-j), i-j, Set)
		}
		for r := range size {
			for j := range sum[r*n:][:i] {
				sum[r*n+j] = -sum[r*n+j]
			}
		}
		w.Product(l[i*n:], n, Dense(inverse[:], size), Dense(sum, n), size, i, size, Set)
		for r := range size {
			copy(l[(i+r)*n+i:][:size], inverse[r*size:])
			clear(l[(i+r)*n+i+size:][:n-i-size])
		}
	}
}
