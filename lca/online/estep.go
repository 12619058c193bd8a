package online

import (
	"math"
	"runtime"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// estimator is the E-step of a stream: λ (eqs. 3, 4) of a minibatch against the pool, and its
// average local covariance. All of it happens in coordinates z = Bᵀ(x−c) that are centred on the
// pool and whitened by the whole metric: there Ĉ_L is near the identity, so that float32 loses
// nothing to cancellation, and the first d_P coordinates are the Parzen part.
type estimator interface {
	// load brings the pool's rows into the coordinates of m. Between two splits the centre stays, and so do
	// all coordinates but the first d_P, except those of rows that replace has changed.
	load(p *pool, m *metricState, w *linalg.Workspace)
	// project brings rows of the input into those coordinates. Their distances are measured from mean.
	project(x, mean []float64)
	// update runs the E-step for the projected rows; see kernel.Update. The result is valid until the next call.
	update(ex kernel.Exclusion) *kernel.Moments
	// replace says that a projected row has taken a slot of the loaded pool, so that it need not be
	// projected a second time.
	replace(slot, row int)
	// forget says that nothing that was loaded is known.
	forget()
	// halfSquares returns ½|B_Gᵀ(x_i−μ)|² for the projected rows; it is valid until the next project.
	halfSquares() []float64
	// mahalanobis returns (x_i−μ)ᵀ (C_G + ν_g)⁻¹ (x_i−μ) for the projected rows, as long.
	mahalanobis(w *linalg.Workspace) []float64
	// departures returns what the constant columns of the projected rows cost (prop1.Departure), as long; nil where none has moved.
	departures() []float64
}

// keptElements is how large a pool, in elements, may be for its buffers to be kept: a learner with larger ones needs them rarely.
const keptElements = 1 << 14

// renewEstimator lets the estimator load the pool again, and frees its buffers for as many rows as the pool has, unless they are small.
func (l *Learner) renewEstimator() {
	if l.cfg.Neighbours*l.cfg.Dim > keptElements {
		l.estimator = newEstimator(l.cfg)
		return
	}
	l.estimator.forget()
}

// eStep is the estimator in one precision.
type eStep[T kernel.Float] struct {
	dim, n, parzen    int          // d, the number of active columns, d_P
	number            uint64       // of the split in whose coordinates the neighbours are
	pool              *pool        // that the neighbours were loaded from
	metric            *metricState // that was loaded
	centre, deviation []float64    // c, and the standard deviations of the columns
	constant          []int        // the columns that are not active
	local, global     projector[T] // B_Lᵀ(x−c), B_Gᵀ(x−c)
	transposed        []float64    // B_Lᵀ, over the active columns
	q                 []T          // the projected minibatch
	rows              int          // of q
	few               []T          // a few rows of the pool, projected by B_G
	distances         distances    // of the rows of q
	neighbours        kernel.Neighbours[T]
	rounded           *kernel.CentredRows // the pool's rows, about the centre; nil in float64
	scratch           kernel.Scratch[T]
	moments           kernel.Moments
}

func newEstimator(c Config) estimator {
	if c.Precision == lca.Float64 {
		return newEStep[float64](c)
	}
	t := newEStep[float32](c)
	t.rounded = new(kernel.CentredRows)
	return t
}

func newEStep[T kernel.Float](c Config) *eStep[T] {
	t := &eStep[T]{dim: c.Dim}
	t.neighbours.Shape = c.shape()
	t.scratch.Threads, t.local.coordinates.Threads = runtime.GOMAXPROCS(0), runtime.GOMAXPROCS(0)
	return t
}

func (t *eStep[T]) load(p *pool, m *metricState, w *linalg.Workspace) {
	n, d := len(m.Active), m.parzen
	same := t.number == m.number && t.pool == p
	t.n, t.parzen, t.number, t.pool, t.metric = n, d, m.number, p, m
	if !same {
		t.centre, t.deviation = append(t.centre[:0], m.centre...), linalg.Resize(t.deviation, t.dim)
		m.deviations(t.deviation)
		t.constant = m.Constant(t.dim)
		t.global.pack(m, m.basis[d:], n, 1, n-d, t.centre, t.deviation)
	}
	if !same || t.neighbours.Len() != p.len() {
		t.neighbours.Reset(p.len(), n, d)
		if t.rounded != nil {
			t.rounded.Reset(p.rows, p.len(), t.centre)
		}
		t.enter(p)
	}
	t.transposed = m.local(t.transposed, w)
	t.local.pack(m, t.transposed, 1, n, d, t.centre, t.deviation)
	t.local.coordinates.Load(&t.neighbours, p.rows, t.rounded)
}

// enter projects the pool's rows by B_G, a few at a time.
func (t *eStep[T]) enter(p *pool) {
	const few = 64
	g := t.n - t.parzen
	t.few = linalg.Resize(t.few, few*g)
	for first := 0; g > 0 && first < p.len(); first += few {
		rows := min(few, p.len()-first)
		t.global.coordinates.Apply(t.few, p.rows[first*t.dim:], rows)
		for i := range rows {
			t.neighbours.Set(first+i, t.parzen, t.few[i*g:(i+1)*g])
		}
	}
}

func (t *eStep[T]) replace(slot, row int) {
	if slot < t.neighbours.Len() {
		t.neighbours.Set(slot, t.parzen, t.q[row*t.n+t.parzen:(row+1)*t.n])
		if t.rounded != nil {
			t.rounded.Set(slot, t.pool.row(slot), t.centre)
		}
	}
}

func (t *eStep[T]) forget() { t.pool, t.metric, t.number = nil, nil, 0 }

func (t *eStep[T]) project(x, mean []float64) {
	t.rows = len(x) / t.dim
	t.distances.reset(mean)
	t.distances.depart(x, t.constant, t.dim)
	t.q = linalg.Resize(t.q, t.rows*t.n)
	kernel.ProjectPair(t.q, x, t.rows, &t.local.coordinates, &t.global.coordinates)
}

func (t *eStep[T]) departures() []float64 { return t.distances.departed }

func (t *eStep[T]) update(ex kernel.Exclusion) *kernel.Moments {
	kernel.Update(&t.moments, &t.scratch, t.q, t.rows, &t.neighbours, ex)
	return &t.moments
}

// deviations sets dst to the standard deviations of the columns, ν_g included; 0 for constant ones.
func (m *metricState) deviations(dst []float64) {
	clear(dst)
	n := len(m.Active)
	for i, k := range m.Active {
		dst[k] = math.Sqrt(kernel.NormSquared(m.gaussian[i*n:][:i+1]))
	}
}
