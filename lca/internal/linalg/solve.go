package linalg

// SolveLeft is B ← L⁻¹ B for the lower triangular L of order n and the n×cols matrix B of stride ldb.
//
// Rows are taken in blocks: what the rows before contribute is one product, and the block on the
// diagonal is inverted. The other two work alike.
func (w *Workspace) SolveLeft(l Matrix, b []float64, ldb, n, cols int) {
	for i := 0; i < n; i += triangleBlock {
		size := min(triangleBlock, n-i)
		w.Product(b[i*ldb:], ldb, l.at(i, 0), Matrix{b, ldb, 1}, size, cols, i, Subtract)
		w.fromLeft(w.invert(l, i, size), b[i*ldb:], ldb, size, cols)
	}
}

// SolveLeftTransposed is B ← L⁻ᵀ B.
func (w *Workspace) SolveLeftTransposed(l Matrix, b []float64, ldb, n, cols int) {
	for i := (n - 1) / triangleBlock * triangleBlock; i >= 0; i -= triangleBlock {
		size := min(triangleBlock, n-i)
		end := i + size
		w.Product(b[i*ldb:], ldb, l.at(end, i).T(), Matrix{b, ldb, 1}.at(end, 0), size, cols, n-end, Subtract)
		w.fromLeft(w.invert(l, i, size).T(), b[i*ldb:], ldb, size, cols)
	}
}

// SolveRight is B ← B L⁻ᵀ for the rows×n matrix B of stride ldb.
func (w *Workspace) SolveRight(l Matrix, b []float64, ldb, n, rows int) {
	for j := 0; j < n; j += triangleBlock {
		size := min(triangleBlock, n-j)
		w.Product(b[j:], ldb, Matrix{b, ldb, 1}, l.at(j, 0).T(), rows, size, j, Subtract)
		inverse := w.invert(l, j, size)
		w.copied = resize(w.copied, rows*size)
		for i := range rows {
			copy(w.copied[i*size:][:size], b[i*ldb+j:])
		}
		w.Product(b[j:], ldb, Dense(w.copied, size), inverse.T(), rows, size, size, Set)
	}
}

// invert returns the inverse of the block of L on the diagonal from i on.
func (w *Workspace) invert(l Matrix, i, size int) Matrix {
	w.inverse = resize(w.inverse, size*size)
	invertBlock(w.inverse, size, l.at(i, i).Data, l.Row, size)
	return Dense(w.inverse, size)
}

// fromLeft is B ← A B for the size×cols matrix B.
func (w *Workspace) fromLeft(a Matrix, b []float64, ldb, size, cols int) {
	w.copied = resize(w.copied, size*cols)
	for i := range size {
		copy(w.copied[i*cols:][:cols], b[i*ldb:])
	}
	w.Product(b, ldb, a, Dense(w.copied, cols), size, cols, size, Set)
}
