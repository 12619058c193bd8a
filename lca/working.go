package lca

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// A column is constant if its variance is below this share of its mean square. With all rows in memory the
// moments are exact, and only the rounding of the rows themselves is left to tell from data: an sd of 1 on
// an offset of 1e7, or of 1e-3 on 1e9, is data.
const roundingVariance = 1e-26

// working holds rows in the coordinates that are learnt in: the active columns only, centred, and divided by
// their standard deviation s (for sparse columns see prop1.Sparse) unless ν is in the paper's absolute units. So
// columns of 1e-9 and 1e9 live together, and ν is relative to the mean working variance, which is 1.
type working struct {
	prop1.ColumnScale
	dim      int
	constant []int     // indices of the columns that do not vary: weight 0 everywhere
	mean     []float64 // μ, dim of them, in the input's units
	scales   []float64 // Info.Scales
	rows     *mat.Dense
}

func newWorking(x *mat.Dense, unit Unit) (*working, error) {
	n, d := x.Dims()
	if n < 2 {
		return nil, fmt.Errorf("lca: fit: %d rows, want at least 2", n)
	}
	w := &working{dim: d, mean: make([]float64, d)}
	sparse := prop1.SparseColumns(linalg.Elements(x), d)
	left := sparse
	for k := range d {
		mean, variance := moments(x, k)
		if math.IsNaN(variance) || math.IsInf(variance, 0) {
			return nil, columnFault(x, k)
		}
		w.mean[k] = mean
		if variance <= roundingVariance*(mean*mean+variance) {
			w.constant = append(w.constant, k)
			continue
		}
		w.Active = append(w.Active, k)
		s := prop1.ScaleOf(variance, k, &left)
		if unit == UnitAbsolute {
			s = 1
		}
		w.Scale = append(w.Scale, s)
	}
	if len(w.Active) == 0 {
		return nil, fmt.Errorf("lca: fit: all %d columns are constant, nothing to learn", d)
	}
	if unit != UnitAbsolute {
		w.scales = w.Scales(d, sparse)
	}
	w.rows = w.of(x)
	return w, nil
}

// of brings rows of the input into working coordinates: (x−μ)/s, subtracted first.
func (w *working) of(x *mat.Dense) *mat.Dense {
	n, _ := x.Dims()
	y := mat.NewDense(n, len(w.Active), nil)
	for i := range n {
		xi, yi := x.RawRowView(i), y.RawRowView(i)
		for a, k := range w.Active {
			yi[a] = (xi[k] - w.mean[k]) / w.Scale[a]
		}
	}
	return y
}

// covariance returns C_G = (1/n) Σ (x−μ)(x−μ)ᵀ of the rows (section 4, below eq. 6).
func (w *working) covariance() *mat.SymDense {
	n, _ := w.rows.Dims()
	var c mat.Dense
	linalg.Mul(&c, w.rows.T(), w.rows)
	c.Scale(1/float64(n), &c)
	return prop1.Symmetric(&c)
}

// logScale returns Σ log s, by which a density in working units exceeds one in the input's.
func (w *working) logScale() float64 {
	sum := 0.0
	for _, s := range w.Scale {
		sum += math.Log(s)
	}
	return sum
}

// moments returns the mean and the variance (divided by n) of column k, in two passes: the second
// also takes the rounding error of the first out of both.
func moments(x *mat.Dense, k int) (mean, variance float64) {
	n, _ := x.Dims()
	for i := range n {
		mean += x.At(i, k) / float64(n)
	}
	rest, square := 0.0, 0.0
	for i := range n {
		r := x.At(i, k) - mean
		rest += r / float64(n)
		square += r * r / float64(n)
	}
	return mean + rest, math.Max(square-rest*rest, 0)
}

// columnFault names the first entry that spoilt column k's variance.
func columnFault(x *mat.Dense, k int) error {
	n, _ := x.Dims()
	for i := range n {
		if v := x.At(i, k); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("lca: fit: row %d, column %d is %v: leave such rows out", i, k, v)
		}
	}
	return fmt.Errorf("lca: fit: column %d is too large to square: divide it by a constant", k)
}
