package linalg

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// Operator is a symmetric matrix of order n by what it does: it sets dst to its product with v, both n×cols.
type Operator func(dst, v []float64, cols int)

// The most blocks of a basis; what has not converged by then takes the whole matrix. Where that is there already, its decomposition costs no more than
// some ten blocks, and eigenvalues that are not apart take thirty.
const (
	LeadingBlocks = 16
	LeadingFew    = 6 // of a matrix that is there
	LeadingFollow = 2 // of a matrix that has changed little since start was found for it: the best of these blocks, converged or not
)

const (
	leadingExtra = 4     // vectors of a block beyond those that are wanted: with them the last one wanted converges sooner
	leadingError = 1e-11 // of a vector: |Cv − θv|, as a share of the largest eigenvalue
)

// Leading finds the k largest eigenvalues, descending, of a positive semidefinite matrix of order n, and their vectors as rows. A vector more or
// less for a whole panel comes with them. start holds rows that are near them, and may be nil: those of a like matrix.
// most is LeadingBlocks, LeadingFew or LeadingFollow.
//
// It is Lanczos' method by blocks: a basis of v, Cv, C²v … that is kept orthonormal, and in it the eigenvectors of VᵀCV. So it takes some
// products of C with a block where the whole decomposition takes n³, and the matrix itself is never needed. Where eigenvalues are so
// close to each other that this does not converge, the matrix is formed and decomposed.
func (w *Workspace) Leading(c Operator, n, k int, start []float64, most int) (values, vectors []float64, err error) {
	size := (k + leadingExtra + kernel.TileWidth - 1) / kernel.TileWidth * kernel.TileWidth
	if 4*size > n {
		return w.leadingOf(c, n, k)
	}
	b := basis{w: w, c: c, n: n, size: size}
	next := make([]float64, size*n)
	fill(next[copy(next, start):])
	for block := range most {
		if b.extend(next) == 0 { // the basis has all that C makes of it
			break
		}
		values, vectors, err = b.ritz()
		if err != nil {
			return nil, nil, err
		}
		if most == LeadingFollow && block == most-1 || b.off(values[:k], vectors) <= leadingError*values[0] {
			return values, vectors, nil
		}
		next = append(next[:0], b.image[len(b.image)-b.last*n:]...)
	}
	return w.leadingOf(c, n, k)
}

// leadingOf is Leading by way of the whole matrix.
func (w *Workspace) leadingOf(c Operator, n, k int) (values, vectors []float64, err error) {
	one, whole := make([]float64, n*n), make([]float64, n*n)
	for i := range n {
		one[i*n+i] = 1
	}
	c(whole, one, n)
	all, columns := make([]float64, n), one
	if err := w.EigenSym(all, columns, whole, n); err != nil {
		return nil, nil, err
	}
	values, vectors = make([]float64, k), make([]float64, k*n)
	for j := range k {
		values[j] = all[n-1-j]
		for i := range n {
			vectors[j*n+i] = columns[i*n+n-1-j]
		}
	}
	return values, vectors, nil
}

// fill writes numbers from −1 to 1 without an order to them, always the same.
func fill(x []float64) {
	state := uint64(1)
	for i := range x {
		state = state*6364136223846793005 + 1442695040888963407
		x[i] = float64(int64(state)>>11) / (1 << 52)
	}
}

// basis is an orthonormal basis that grows by blocks, vectors as rows, with what the matrix makes of them.
type basis struct {
	w             *Workspace
	c             Operator
	n, size, last int // order; most vectors of a block; those of the newest
	rows, image   []float64
	in, out       []float64 // of the operator, as columns
	overlap       []float64
}

func (b *basis) vectors() int { return len(b.rows) / b.n }

// extend adds what block has beyond the basis, and returns how many vectors that is.
func (b *basis) extend(block []float64) int {
	first := b.vectors()
	for ; len(block) > 0; block = block[b.n:] {
		if v := block[:b.n]; b.apart(v) {
			b.rows = append(b.rows, v...)
		}
	}
	b.last = b.vectors() - first
	b.apply(first)
	return b.last
}

// apart makes v orthogonal to the basis and of length 1, and reports whether more than rounding was left of it. What is subtracted from a vector that is
// nearly within the basis leaves its rounding, large next to the rest: so once more, until a pass takes little.
func (b *basis) apart(v []float64) bool {
	whole := math.Sqrt(kernel.NormSquared(v))
	for before := whole; ; {
		for m := range b.vectors() {
			u := b.rows[m*b.n:][:b.n]
			s := dot(u, v)
			for i, x := range u {
				v[i] -= float64(s * x)
			}
		}
		rest := math.Sqrt(kernel.NormSquared(v))
		switch {
		case !(rest > 1e-13*whole):
			return false
		case rest > before/2:
			scale(v, 1/rest)
			return true
		}
		before = rest
	}
}

// apply adds the images of the vectors from the m-th on.
func (b *basis) apply(m int) {
	n, cols := b.n, b.vectors()-m
	if cols == 0 {
		return
	}
	b.in, b.out = Resize(b.in, n*cols), Resize(b.out, n*cols)
	for j := range cols {
		for i, x := range b.rows[(m+j)*n:][:n] {
			b.in[i*cols+j] = x
		}
	}
	b.c(b.out, b.in, cols)
	for j := range cols {
		for i := range n {
			b.image = append(b.image, b.out[i*cols+j])
		}
	}
}

// ritz returns the largest eigenvalues within the basis, a block of them, and their vectors.
func (b *basis) ritz() (values, vectors []float64, err error) {
	m, n := b.vectors(), b.n
	inner, all, turned := make([]float64, m*m), make([]float64, m), make([]float64, m*m)
	b.w.Product(inner, m, Dense(b.rows, n), Dense(b.image, n).T(), m, m, n, Set)
	symmetrise(inner, m)
	if err := b.w.EigenSym(all, turned, inner, m); err != nil {
		return nil, nil, err
	}
	kept := min(m, b.size)
	values, vectors = make([]float64, kept), make([]float64, kept*n)
	b.overlap = Resize(b.overlap, kept*m) // the eigenvectors, as rows
	for j := range kept {
		values[j] = all[m-1-j]
		for i := range m {
			b.overlap[j*m+i] = turned[i*m+m-1-j]
		}
	}
	b.w.Product(vectors, n, Dense(b.overlap, m), Dense(b.rows, n), kept, n, m, Set)
	return values, vectors, nil
}

// off is the largest |Cv − θv| of the first vectors that ritz has returned.
func (b *basis) off(values, vectors []float64) (most float64) {
	m, n := b.vectors(), b.n
	if m < len(values) {
		return math.Inf(1)
	}
	images := make([]float64, len(values)*n)
	b.w.Product(images, n, Dense(b.overlap, m), Dense(b.image, n), len(values), n, m, Set)
	for j, theta := range values {
		rest := images[j*n:][:n]
		for i, v := range vectors[j*n:][:n] {
			rest[i] -= float64(theta * v)
		}
		most = max(most, math.Sqrt(kernel.NormSquared(rest)))
	}
	return most
}

// symmetrise is A ← (A + Aᵀ)/2, on and below the diagonal.
func symmetrise(a []float64, n int) {
	for i := range n {
		for j := range i {
			a[i*n+j] = 0.5 * (a[i*n+j] + a[j*n+i])
		}
	}
}
