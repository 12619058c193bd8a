package prop1

import (
	"math"

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

// median returns the upper median of x, which has no NaN; work is overwritten. It is Hoare's selection, the pivot the median of three.
func median(work, x []float64) float64 {
	copy(work, x)
	k := len(work) / 2
	for low, high := 0, len(work)-1; low < high; {
		a, b, c := work[low], work[low+(high-low)/2], work[high]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := low, high
		for i <= j {
			for work[i] < pivot {
				i++
			}
			for work[j] > pivot {
				j--
			}
			if i <= j {
				work[i], work[j] = work[j], work[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return work[k]
		}
	}
	return work[k]
}
