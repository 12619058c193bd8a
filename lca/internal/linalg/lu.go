package linalg

import "math"

// LogAbsDet returns log|det A|, −Inf where A is singular. It overwrites the n×n matrix a by its factors L and U, with
// rows exchanged.
func (w *Workspace) LogAbsDet(a []float64, n int) (sum float64) {
	check("LogAbsDet", a, n)
	w.lu(a, n, 0, n)
	for i := range n {
		sum += math.Log(math.Abs(a[i*n+i]))
	}
	return sum
}

// lu factors the columns from … to−1 below those before them, which are. They are cut in two (Toledo, SIAM Journal on Matrix
// Analysis 18, 1997), so that almost all of the work is products:
//
//	U₁₂ = L₁₁⁻¹ A₁₂,   A₂₂ ← A₂₂ − L₂₁ U₁₂
func (w *Workspace) lu(a []float64, n, from, to int) {
	if to-from <= triangleBlock {
		luBlock(a, n, from, to)
		return
	}
	h := half(to - from)
	middle := from + h
	w.lu(a, n, from, middle)
	w.left = Resize(w.left, h*h)
	for i := range h {
		row := w.left[i*h:][:h]
		clear(row[copy(row, a[(from+i)*n+from:][:i]):])
		row[i] = 1
	}
	right := Matrix{a[from*n+middle:], n, 1}
	w.SolveLeft(Dense(w.left, h), right.Data, n, h, to-middle)
	w.Product(a[middle*n+middle:], n, Matrix{a[middle*n+from:], n, 1}, right, n-middle, to-middle, h, Subtract)
	w.lu(a, n, middle, to)
}

// luBlock is lu of a few columns by loops. The largest element of a column becomes its pivot, and the whole rows change places.
func luBlock(a []float64, n, from, to int) {
	for k := from; k < to; k++ {
		best := k
		for i := k + 1; i < n; i++ {
			if math.Abs(a[i*n+k]) > math.Abs(a[best*n+k]) {
				best = i
			}
		}
		if best != k {
			other := a[best*n:][:n]
			for j, v := range a[k*n:][:n] {
				a[k*n+j], other[j] = other[j], v
			}
		}
		pivot := a[k*n:][:to]
		if pivot[k] == 0 {
			continue
		}
		inverse := 1 / pivot[k]
		for i := k + 1; i < n; i++ {
			row := a[i*n:][:to]
			row[k] *= inverse
			for j := k + 1; j < to; j++ {
				row[j] = math.FMA(-row[k], pivot[j], row[j])
			}
		}
	}
}
