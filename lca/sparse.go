package lca

import "math"

// sparseShare is the share of rows that differ below which a column is sparse.
const sparseShare = 0.5

// sparse is a column that holds the same number in more than half of the rows, such as a count that is
// mostly 0, a flag, or the corner of a picture.
//
// Its standard deviation says how rarely it holds another, not how far that is: √p times as far, with p the
// share of the rows that do. Divided by it a pixel that is lit in one picture of a hundred weighs seven
// times as much as one that is lit in half of them. So such a column is divided by what its standard deviation
// would be if half of the rows differed, √(variance/2p), which does not depend on its unit either. And
// whatever it holds for once is any number of standard deviations away, so that it makes no outlier (gate.go).
type sparse struct {
	column int
	usual  float64 // what it mostly holds
	share  float64 // p; it runs as the variance does
}

// sparseOf returns the sparse columns of rows, ascending.
func sparseOf(rows []float64, d int) (found []sparse) {
	column, work := make([]float64, len(rows)/d), make([]float64, len(rows)/d)
	for k := range d {
		if usual, spread := spreadOf(column, work, rows, k, d); spread == 0 {
			s := sparse{column: k, usual: usual}
			s.share = s.differ(rows, d)
			found = append(found, s)
		}
	}
	return found
}

// differ returns the share of rows that do not hold what the column mostly holds.
func (s sparse) differ(rows []float64, d int) float64 {
	n, others := len(rows)/d, 0
	for i := range n {
		if rows[i*d+s.column] != s.usual {
			others++
		}
	}
	return float64(others) / float64(n)
}

// scaleOf returns the unit of a column of that variance. all are the sparse columns that are left, ascending; those
// up to k are taken off.
func scaleOf(variance float64, k int, all *[]sparse) float64 {
	for len(*all) > 0 && (*all)[0].column <= k {
		s := (*all)[0]
		*all = (*all)[1:]
		if s.column == k && s.share > 0 {
			variance *= max(1, sparseShare/s.share)
		}
	}
	return math.Sqrt(variance)
}
