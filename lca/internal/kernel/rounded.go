package kernel

import "fmt"

// Rounded are the rows of a pool without their mean μ, rounded to float32, as a [Single] multiplies them: kept
// from one W to the next, so that only rows that are new need be centred. The zero value is empty.
type Rounded struct {
	dim, ld int
	rows    []float32 // at a stride that suits the cache
}

// Reset holds the n rows of x.
func (r *Rounded) Reset(x []float64, n int, mean []float64) {
	r.dim, r.ld = len(mean), stride[float32](len(mean))
	r.rows = grow(r.rows, n*r.ld)
	for i := range n {
		r.Set(i, x[i*r.dim:], mean)
	}
}

// Set replaces row i.
func (r *Rounded) Set(i int, x, mean []float64) {
	if len(x) < r.dim || len(mean) != r.dim {
		panic(fmt.Sprintf("kernel: round %d numbers, less a mean of %d, as a row of %d", len(x), len(mean), r.dim))
	}
	active().centreF32(r.rows[i*r.ld:][:r.dim], x[:r.dim], mean)
}

// block returns the rows from row i on, as many as are projected at once.
func (r *Rounded) block(i int) []float32 {
	return r.rows[min(i*r.ld, len(r.rows)):min((i+projectRows)*r.ld, len(r.rows))]
}
