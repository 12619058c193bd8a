package prop1

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
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

// LeastVariance is that of a column that is learnt: one of less counts as constant, whatever its level. A snapshot holds weights up to 1e100, those of
// columns that follow each other are above 1/s, and the squares of weights are numbers too.
const LeastVariance = 1e-190

// RunningRounding is which share of a column's mean square running moments have for a variance by rounding alone.
const RunningRounding = 1e-20

// Varies reports whether a column is not constant: its variance is more than that share of its mean square, which is rounding.
func Varies(variance, mean, rounding float64) bool {
	return variance > max(rounding*(mean*mean+variance), LeastVariance)
}

// ColumnScale is which columns are learnt, and in which units: an active column is divided by its scale s.
// ν I in units of s is ν diag(s²) in the input's, so that ν is relative to the variance of each column, and
// columns of 1e-9 and 1e9 live together. In the paper's absolute units s = 1.
type ColumnScale struct {
	Active []int     // indices of the columns that vary
	Scale  []float64 // s, one for each active column
}

// Constant returns the columns that are not active.
func (f ColumnScale) Constant(dim int) []int {
	var out []int
	for k := range dim {
		if _, found := slices.BinarySearch(f.Active, k); !found {
			out = append(out, k)
		}
	}
	return out
}

// Scales returns s of each of dim columns, 0 for constant ones, where they are not the columns' standard deviations because some are sparse;
// nil otherwise.
func (f ColumnScale) Scales(dim int, sparse []Sparse) []float64 {
	rare := func(s Sparse) bool {
		_, active := slices.BinarySearch(f.Active, s.Column)
		return active && s.Share > 0 && s.Share < sparseShare
	}
	if !slices.ContainsFunc(sparse, rare) {
		return nil
	}
	all := make([]float64, dim)
	for a, k := range f.Active {
		all[k] = f.Scale[a]
	}
	return all
}

// Sub copies the active rows and columns of a dim×dim matrix to dst and adds ν s² to its diagonal.
func (f ColumnScale) Sub(dst, a []float64, dim int, nu float64) []float64 {
	n := len(f.Active)
	dst = linalg.Resize(dst, n*n)
	for i, k := range f.Active {
		from, to := a[k*dim:][:dim], dst[i*n:][:n]
		if n == dim {
			copy(to, from)
		} else {
			for j, m := range f.Active {
				to[j] = from[m]
			}
		}
		to[i] += nu * f.Scale[i] * f.Scale[i]
	}
	return dst
}

// SymmetricOut spreads a symmetric matrix over the active columns over all dim.
func (f ColumnScale) SymmetricOut(a []float64, dim int) *mat.SymDense {
	n := len(f.Active)
	out := mat.NewSymDense(dim, nil)
	for i, k := range f.Active { // ascending, so that all of it is above the diagonal
		row := out.RawSymmetric().Data[k*dim:][:dim]
		for j := i; j < n; j++ {
			row[f.Active[j]] = a[i*n+j]
		}
	}
	return out
}

// CovarianceIn brings a dim×dim covariance into working units, active columns only.
func (f ColumnScale) CovarianceIn(c []float64, dim int) *mat.SymDense {
	out := mat.NewSymDense(len(f.Active), nil)
	for a, k := range f.Active {
		for b := a; b < len(f.Active); b++ {
			out.SetSym(a, b, c[k*dim+f.Active[b]]/(f.Scale[a]*f.Scale[b]))
		}
	}
	return out
}

// CovarianceOut brings a covariance into the input's units; constant columns get zeros.
func (f ColumnScale) CovarianceOut(c *mat.SymDense, dim int) *mat.SymDense {
	out := mat.NewSymDense(dim, nil)
	for a, k := range f.Active {
		for b := a; b < len(f.Active); b++ {
			out.SetSym(k, f.Active[b], c.At(a, b)*f.Scale[a]*f.Scale[b])
		}
	}
	return out
}

// DirectionsOut brings columns of B into the input's units; constant columns get weight 0.
func (f ColumnScale) DirectionsOut(b *mat.Dense, dim int) *mat.Dense {
	cols := Columns(b)
	if cols == 0 {
		return &mat.Dense{}
	}
	out := mat.NewDense(dim, cols, nil)
	for a, k := range f.Active {
		for j := range cols {
			out.Set(k, j, b.At(a, j)/f.Scale[a])
		}
	}
	return out
}

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

const (
	constantShare = 1e-6  // s of a constant column, as a share of its level,
	constantLeast = 1e-12 // and at least
	linearMost    = 10    // cut is linear up to here
)

// Departure returns by how many nats −log p of a row rises because a column that was constant while it was learnt is at x, and not
// at its level:
//
//	½ cut(|x−level|/s)²,   s = max(10⁻⁶ |level|, 10⁻¹²)
//	cut(v) = 0 for v ≤ 1,  v for v ≤ 10,  10 (1 + log(v/10)) beyond
//
// Nothing is known of how such a column moves. What is known is that it did not, in any row. So s is the rounding of float32 with a margin, which
// is also far above what passes for constant (1e-10 of the level), and any other move counts: one of a hundredth of a percent has 545 nats, more
// than the scores of ordinary rows vary in hundreds of columns. Beyond that cut grows slowly, so that the score of a counter that begins at 0 is a number too.
func Departure(x, level float64) float64 {
	far, unit := math.Abs(x-level), max(constantShare*math.Abs(level), constantLeast)
	v := far / unit
	if v <= 1 {
		return 0
	}
	if v > linearMost { // and perhaps beyond all numbers
		v = linearMost * (1 + math.Log(far) - math.Log(linearMost*unit))
	}
	return 0.5 * v * v
}

// Constants appends to dst which of dim columns have no weight in B: those that were constant while it was learnt.
func (p Parts) Constants(dst []int, dim int) []int {
	for k := range dim {
		if noWeight(p.BG, k) && noWeight(p.BL, k) {
			dst = append(dst, k)
		}
	}
	return dst
}

func noWeight(b *mat.Dense, row int) bool {
	if Columns(b) == 0 {
		return true
	}
	return !slices.ContainsFunc(b.RawRowView(row), func(v float64) bool { return v != 0 })
}
