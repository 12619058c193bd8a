package prop1

import (
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

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
