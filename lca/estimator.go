package lca

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// estimator is the E-step of a stream: λ (eqs. 3, 4) of a minibatch against the pool, and its
// average local covariance. All of it happens in coordinates z = Bᵀ(x−c) that are centred on the
// pool and whitened by the whole metric: there Ĉ_L is near the identity, so that float32 loses
// nothing to cancellation, and the first d_P coordinates are the Parzen part.
type estimator interface {
	// load takes the pool's rows into the coordinates of m.
	load(p *pool, m *inForce)
	// update runs the E-step for rows of the input; see kernel.Update. The result is valid until
	// the next call.
	update(x []float64, ex kernel.Exclusion) *kernel.Moments
	// gaussian sets dst[i] to ½|B_Gᵀ(x_i−μ)|² for the rows of the last update.
	gaussian(dst []float64, mean []float64)
}

// tiles is the estimator in one precision.
type tiles[T kernel.Float] struct {
	dim, n, parzen int
	w, centre      []float64 // Bᵀ over all columns, n×dim; the pool's mean
	coordinates    kernel.Coordinates[T]
	deviation      []float64
	rows           int
	q              []T
	neighbours     kernel.Neighbours[T]
	scratch        kernel.Scratch[T]
	moments        kernel.Moments
}

func newEstimator(c Config) estimator {
	if c.Precision == Float64 {
		return &tiles[float64]{dim: c.Dim}
	}
	return &tiles[float32]{dim: c.Dim}
}

func (t *tiles[T]) load(p *pool, m *inForce) {
	t.n, t.parzen = len(m.active), m.parzen
	t.w = resize(t.w, t.n*t.dim)
	clear(t.w)
	for i, k := range m.active {
		for j := range t.n {
			t.w[j*t.dim+k] = m.b.At(i, j)
		}
	}
	t.centre = resize(t.centre, t.dim)
	meanOf(t.centre, p.rows, t.dim)
	t.deviation = m.deviations(resize(t.deviation, t.dim))
	t.coordinates.Pack(t.centre, t.w, t.dim, t.n, t.deviation)
	t.coordinates.Load(&t.neighbours, p.rows, p.len(), t.parzen)
}

// deviations sets dst to the standard deviations of the columns, ν_g included; 0 for constant ones.
func (m *inForce) deviations(dst []float64) []float64 {
	clear(dst)
	for i, k := range m.active {
		sum := 0.0
		for j := range i + 1 {
			sum += float64(m.gaussian.At(i, j) * m.gaussian.At(i, j))
		}
		dst[k] = math.Sqrt(sum)
	}
	return dst
}

func (t *tiles[T]) update(x []float64, ex kernel.Exclusion) *kernel.Moments {
	t.rows = len(x) / t.dim
	t.q = resize(t.q, t.rows*t.n)
	t.coordinates.Apply(t.q, x, t.rows)
	kernel.Update(&t.moments, &t.scratch, t.q, t.rows, &t.neighbours, ex)
	return &t.moments
}

func (t *tiles[T]) gaussian(dst []float64, mean []float64) {
	offset := make([]float64, t.n) // Bᵀ(μ−c)
	for j := t.parzen; j < t.n; j++ {
		for k, w := range t.w[j*t.dim : (j+1)*t.dim] {
			offset[j] += float64(w * (mean[k] - t.centre[k]))
		}
	}
	for i := range dst {
		sum := 0.0
		for j := t.parzen; j < t.n; j++ {
			y := float64(t.q[i*t.n+j]) - offset[j]
			sum += float64(y * y)
		}
		dst[i] = 0.5 * sum
	}
}

// localCovariance brings the sum of local covariances of an E-step back into the input's units and
// divides by the number of rows used: Ĉ_L = B⁻ᵀ (Σ_ij λ_ij (z_i−z_j)(z_i−z_j)ᵀ / rows) B⁻¹ for the
// active columns, spread over all dim.
func (m *inForce) localCovariance(dst []float64, dim int, sum *kernel.Moments) {
	n := len(m.active)
	var left, c mat.Dense
	linalg.Mul(&left, m.inv.T(), mat.NewDense(n, n, sum.Cov[:n*n]))
	linalg.Mul(&c, &left, m.inv)
	clear(dst)
	used := float64(sum.Rows)
	for i, k := range m.active {
		for j, o := range m.active {
			dst[k*dim+o] = 0.5 * (c.At(i, j) + c.At(j, i)) / used
		}
	}
}

// baseline sets dst[i] to −log N(x_i; μ, C_G + ν_g), the single Gaussian that is compared with.
func (m *inForce) baseline(dst []float64, x []float64, dim int, mean []float64) {
	m.squares(dst, x, dim, mean, nil)
	constant := 0.5*float64(len(m.active))*math.Log(2*math.Pi) + logDiagonal(m.gaussian)
	for i, square := range dst {
		dst[i] = constant + 0.5*square
	}
}

// squares sets dst[i] to (x_i−μ)ᵀ (C_G + ν_g)⁻¹ (x_i−μ), with the sparse columns of without taken for μ, and returns
// how many columns are left.
func (m *inForce) squares(dst []float64, x []float64, dim int, mean []float64, without []sparse) (counted int) {
	if len(dst) == 0 {
		return 0
	}
	y := mat.NewDense(len(dst), len(m.active), nil)
	for j, k := range m.active {
		if slices.ContainsFunc(without, func(s sparse) bool { return s.column == k }) {
			continue
		}
		counted++
		for i := range dst {
			y.Set(i, j, x[i*dim+k]-mean[k])
		}
	}
	solveRight(y, m.gaussian)
	for i := range dst {
		sum := 0.0
		for _, v := range y.RawRowView(i) {
			sum += float64(v * v)
		}
		dst[i] = sum
	}
	return counted
}

// resize returns a slice of length n, reusing s where it can.
func resize[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}
