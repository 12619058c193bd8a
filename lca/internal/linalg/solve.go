package linalg

// SolveLeft is B ← L⁻¹ B for the lower triangular L of order n and the n×cols matrix B of stride ldb.
//
// The triangle is cut in two: the one half of B that L₂₁ does not touch is solved, what it contributes to the
// other is one product, and small triangles are inverted. The other two work alike.
func (w *Workspace) SolveLeft(l Matrix, b []float64, ldb, n, cols int) {
	if n <= triangleBlock {
		w.fromLeft(w.invert(l, n), b, ldb, n, cols)
		return
	}
	h := half(n)
	w.SolveLeft(l, b, ldb, h, cols)
	w.Product(b[h*ldb:], ldb, l.at(h, 0), Matrix{b, ldb, 1}, n-h, cols, h, Subtract)
	w.SolveLeft(l.at(h, h), b[h*ldb:], ldb, n-h, cols)
}

// SolveLeftTransposed is B ← L⁻ᵀ B.
func (w *Workspace) SolveLeftTransposed(l Matrix, b []float64, ldb, n, cols int) {
	if n <= triangleBlock {
		w.fromLeft(w.invert(l, n).T(), b, ldb, n, cols)
		return
	}
	h := half(n)
	w.SolveLeftTransposed(l.at(h, h), b[h*ldb:], ldb, n-h, cols)
	w.Product(b, ldb, l.at(h, 0).T(), Matrix{b, ldb, 1}.at(h, 0), h, cols, n-h, Subtract)
	w.SolveLeftTransposed(l, b, ldb, h, cols)
}

// SolveRight is B ← B L⁻ᵀ for the rows×n matrix B of stride ldb.
func (w *Workspace) SolveRight(l Matrix, b []float64, ldb, n, rows int) {
	if n <= triangleBlock {
		inverse := w.invert(l, n)
		w.copied = Resize(w.copied, rows*n)
		for i := range rows {
			copy(w.copied[i*n:][:n], b[i*ldb:])
		}
		w.Product(b, ldb, Dense(w.copied, n), inverse.T(), rows, n, n, Set)
		return
	}
	h := half(n)
	w.SolveRight(l, b, ldb, h, rows)
	w.Product(b[h:], ldb, Matrix{b, ldb, 1}, l.at(h, 0).T(), rows, n-h, h, Subtract)
	w.SolveRight(l.at(h, h), b[h:], ldb, n-h, rows)
}

// invert returns the inverse of a small triangle.
func (w *Workspace) invert(l Matrix, n int) Matrix {
	w.inverse = Resize(w.inverse, n*n)
	invertBlock(w.inverse, n, l.Data, l.Row, n)
	return Dense(w.inverse, n)
}

// fromLeft is B ← A B for the n×cols matrix B.
func (w *Workspace) fromLeft(a Matrix, b []float64, ldb, n, cols int) {
	w.copied = Resize(w.copied, n*cols)
	for i := range n {
		copy(w.copied[i*cols:][:cols], b[i*ldb:])
	}
	w.Product(b, ldb, a, Dense(w.copied, cols), n, cols, n, Set)
}
