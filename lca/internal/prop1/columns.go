package prop1

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// Mean sets dst to the mean of rows; a second pass takes out the rounding of the first. rest is scratch.
func Mean(dst, rest, rows []float64, dim int) {
	clear(dst)
	MoveToMean(dst, rest, rows, dim)
	MoveToMean(dst, rest, rows, dim)
}

// MoveToMean moves dst to the mean of rows. The nearer it was, the fewer digits are lost.
func MoveToMean(dst, rest, rows []float64, dim int) {
	clear(rest)
	n := len(rows) / dim
	for i := range n {
		kernel.AddDiff(rest, rows[i*dim:], dst)
	}
	for k := range dst {
		dst[k] += rest[k] / float64(n)
	}
}

// Spread returns the median of column k and the robust standard deviation about it; column and work are
// overwritten.
func Spread(column, work, rows []float64, k, d int) (centre, spread float64) {
	for i := range column {
		column[i] = rows[i*d+k]
	}
	centre = median(work, column)
	for i, v := range column {
		column[i] = math.Abs(v - centre)
	}
	return centre, median(work, column) / 0.6745 // the MAD of a Gaussian is .6745 sd
}

// median returns the upper median of x; work is overwritten.
func median(work, x []float64) float64 {
	copy(work, x)
	slices.Sort(work)
	return work[len(work)/2]
}
