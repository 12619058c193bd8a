package prop1

import "math"

// sparseShare is the share of rows that differ below which a column is sparse.
const sparseShare = 0.5

// Sparse is a column that holds the same number in more than half of the rows, such as a count that is
// mostly 0, a flag, or the corner of a picture.
//
// Its standard deviation says how rarely it holds another number, rather than how far away that number is: it is √p
// times as far, with p the share of the rows that differ. Divided by it, a pixel that is lit in one picture of a
// hundred would weigh seven times as much as one that is lit in half of them. So such a column is divided by what its
// standard deviation would be if half of the rows differed, √(variance/2p), which does not depend on its unit either.
// And because a rare number can be any number of standard deviations away, a sparse column makes no row an outlier.
type Sparse struct {
	Column int     // its index
	Usual  float64 // what it mostly holds
	Share  float64 // p; it runs as the variance does
}

// SparseColumns returns the sparse columns of rows, ascending.
func SparseColumns(rows []float64, d int) (found []Sparse) {
	column, work := make([]float64, len(rows)/d), make([]float64, len(rows)/d)
	for k := range d {
		if usual, spread := Spread(column, work, rows, k, d); spread == 0 {
			s := Sparse{Column: k, Usual: usual}
			s.Share = s.Differ(rows, d)
			found = append(found, s)
		}
	}
	return found
}

// Differ returns the share of rows that do not hold what the column mostly holds.
func (s Sparse) Differ(rows []float64, d int) float64 {
	n, others := len(rows)/d, 0
	for i := range n {
		if rows[i*d+s.Column] != s.Usual {
			others++
		}
	}
	return float64(others) / float64(n)
}

// ScaleOf returns the scale s of column k, which has that variance. Columns are asked about in ascending order: all
// holds the sparse columns that are left, ascending, and loses those up to k.
func ScaleOf(variance float64, k int, all *[]Sparse) float64 {
	for len(*all) > 0 && (*all)[0].Column <= k {
		s := (*all)[0]
		*all = (*all)[1:]
		if s.Column == k && s.Share > 0 {
			variance *= max(1, sparseShare/s.Share)
		}
	}
	return math.Sqrt(variance)
}
