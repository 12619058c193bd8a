package lca

import (
	"math"
	"runtime"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// rowSums gathers the rows of a step, at most kernelRows, and sums them.
type rowSums interface {
	// project appends rows, in the model's coordinates, unless one of them is too far away: then it returns false, and appends none.
	project(x []float64, n int) bool
	projectFloat32(x []float32, n int) bool
	// count returns the number of rows.
	count() int
	// sums sets what a step has of the rows, and forgets them.
	sums(s *Statistics)
}

// tooFar is |z|² of a row that is left out. What other rows add to a sum of float64 is less than its last digit next to such a row, so that a covariance with it
// is singular. Rows whose coordinates or scores are beyond float32 are among them.
const tooFar = 1 << 53

// rowSumsIn are rowSums in one precision.
type rowSumsIn[T kernel.Float] struct {
	dim, parzen int     // coordinates, and those of the Parzen part
	constant    float64 // of −log p
	projection  kernel.Projection
	projecting  kernel.Scratch[float64]

	z []T // the rows
	n int

	pool      *kernel.Neighbours[T] // nil where all directions are Gaussian
	exclusion kernel.Exclusion
	scratch   kernel.Scratch[T]
	moments   kernel.Moments

	centre  []T       // the mean of the rows, rounded
	about   []float64 // the sum of the rows less centre
	scatter []float64
	origin  []float64 // zeros
	norms   []float64 // |z|², over the Gaussian part or all
}

func newRowSums[T kernel.Float](m *Model) *rowSumsIn[T] {
	b := m.parts()
	all := b.Joined()
	d := prop1.Columns(all)
	r := &rowSumsIn[T]{
		dim: d, parzen: m.Parzen(), constant: normaliser(b, m.shape()), z: make([]T, kernelRows*d),
		centre: make([]T, d), about: make([]float64, d), scatter: make([]float64, d*d), origin: make([]float64, d),
	}
	r.projection.Pack(m.Mean, linalg.Elements(all.T()), m.Dim, d)
	r.scratch.Threads = runtime.GOMAXPROCS(0)
	if m.Parzen() > 0 {
		z := whitened[T](m.offsets(), b)
		r.pool = &kernel.Neighbours[T]{Shape: m.shape()}
		r.pool.Pack(z, len(z)/d, d, m.Parzen())
		r.exclusion.NearCopy = kernel.NearCopy * float64(d)
	}
	return r
}

func (r *rowSumsIn[T]) project(x []float64, n int) bool {
	kernel.Project(&r.projection, r.z[r.n*r.dim:], &r.projecting, x, n)
	return r.append(n)
}

func (r *rowSumsIn[T]) projectFloat32(x []float32, n int) bool {
	kernel.Project(&r.projection, r.z[r.n*r.dim:], &r.projecting, x, n)
	return r.append(n)
}

// append takes the n rows that have been projected, unless one is too far away.
func (r *rowSumsIn[T]) append(n int) bool {
	r.norms = linalg.Resize(r.norms, n)
	kernel.SquaredDistances(r.norms, r.z[r.n*r.dim:], r.dim, r.origin)
	for _, square := range r.norms {
		if !(square < tooFar) { // NaN where a coordinate is beyond the precision
			return false
		}
	}
	r.n += n
	return true
}

func (r *rowSumsIn[T]) count() int { return r.n }

func (r *rowSumsIn[T]) sums(s *Statistics) {
	*s = Statistics{Rows: uint64(r.n), Mean: s.Mean, Scatter: s.Scatter, Local: s.Local}
	r.moveToMean(s)
	r.norms = linalg.Resize(r.norms, r.n)
	kernel.SquaredDistances(r.norms, r.z[r.parzen:], r.dim, r.origin[r.parzen:])
	if r.pool == nil {
		r.gaussian(s)
	} else {
		r.local(s)
	}
	r.n = 0
}

// moveToMean sets the mean of the rows, and their scatter about it.
func (r *rowSumsIn[T]) moveToMean(s *Statistics) {
	d, n := r.dim, float64(r.n)
	kernel.ColumnSums(r.about, &r.scratch, r.z, r.n)
	for k, v := range r.about {
		r.centre[k] = T(v / n)
	}
	kernel.Scatter(r.about, r.scatter, &r.scratch, r.z, r.n, r.centre)
	at := 0
	for i, v := range r.about {
		s.Mean[i] = float64(r.centre[i]) + v/n
		for j := i; j < d; j++ {
			s.Scatter[at] = r.scatter[i*d+j] - float64(v*r.about[j])/n
			at++
		}
	}
}

// gaussian sets the sums under a single Gaussian, which no row is near or far from.
func (r *rowSumsIn[T]) gaussian(s *Statistics) {
	clear(s.Local)
	s.Used = uint64(r.n)
	for _, square := range r.norms {
		s.NLL += r.constant + 0.5*square
	}
}

// local sets what the E-step says of the rows.
func (r *rowSumsIn[T]) local(s *Statistics) {
	m := &r.moments
	kernel.Update(m, &r.scratch, r.z[:r.n*r.dim], r.n, r.pool, r.exclusion)
	s.Used, s.Copies = uint64(m.Rows), uint64(m.Copies)
	at := 0
	for i := range r.dim {
		at += copy(s.Local[at:], m.Upper[i*r.dim+i:(i+1)*r.dim])
	}
	var logs logSum
	for i, admissible := range m.Admissible {
		if !m.Used[i] {
			continue
		}
		s.Effective += m.Effective[i]
		s.NLL += r.constant + 0.5*r.norms[i] - m.LogNearest(i)
		logs.add(float64(admissible), m.Sum[i])
	}
	s.NLL += logs.total()
}

// logSum is Σ log(a/b) of numbers from 1 to 2³². It takes the logarithm of their products, of as many as cannot overflow.
type logSum struct {
	over, under float64
	n           int
	sum         float64
}

func (l *logSum) add(a, b float64) {
	if l.n == 0 {
		l.over, l.under = 1, 1
	}
	l.over, l.under = l.over*a, l.under*b
	if l.n++; l.n == 16 {
		l.sum = l.total()
		l.n = 0
	}
}

func (l *logSum) total() float64 {
	if l.n == 0 {
		return l.sum
	}
	return l.sum + math.Log(l.over/l.under)
}
