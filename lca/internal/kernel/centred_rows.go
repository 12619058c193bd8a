package kernel

import "fmt"

// CentredRows holds the rows of a pool less their mean μ, rounded to float32, as a [Projection32] multiplies them. They
// are kept from one W to the next, so that only new rows have to be centred. The zero value is empty.
type CentredRows struct {
	dim, ld int
	rows    []float32 // at a stride that suits the cache
}

// Reset replaces all rows by the n rows of x, less the mean.
func (r *CentredRows) Reset(x []float64, n int, mean []float64) {
	r.dim, r.ld = len(mean), stride[float32](len(mean))
	r.rows = grow(r.rows, n*r.ld)
	for i := range n {
		r.Set(i, x[i*r.dim:], mean)
	}
}

// Set replaces row i by x less the mean.
func (r *CentredRows) Set(i int, x, mean []float64) {
	if len(x) < r.dim || len(mean) != r.dim {
		panic(fmt.Sprintf("kernel: centre a row of %d numbers by a mean of %d as a row of %d", len(x), len(mean), r.dim))
	}
	active().centreF32(r.rows[i*r.ld:][:r.dim], x[:r.dim], mean)
}

// block returns the rows from row i on, at most projectRows.
func (r *CentredRows) block(i int) []float32 {
	return r.rows[min(i*r.ld, len(r.rows)):min((i+projectRows)*r.ld, len(r.rows))]
}
