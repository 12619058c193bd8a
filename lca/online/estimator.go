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
	// load takes the pool's rows into the coordinates of m. From one split to the next the centre stays,
	// and so do all but the first d_P coordinates, but for rows that replace has brought.
	load(p *pool, m *inForce, w *linalg.Workspace)
	// place takes rows of the input into those coordinates. μ is what their distances are from.
	place(x, mean []float64)
	// update runs the E-step for the rows placed; see kernel.Update. The result is valid until
	// the next call.
	update(ex kernel.Exclusion) *kernel.Moments
	// replace says that the row in a slot of the pool loaded has given way to one that is placed, so that
	// nobody need take it into coordinates once more.
	replace(slot, row int)
	// halves returns ½|B_Gᵀ(x_i−μ)|² for the rows placed, until the next call of place.
	halves() []float64
	// squares returns (x_i−μ)ᵀ (C_G + ν_g)⁻¹ (x_i−μ) likewise.
	squares(w *linalg.Workspace) []float64
}

// tiles is the estimator in one precision.
type tiles[T kernel.Float] struct {
	dim, n, parzen    int
	number            uint64 // the split and
	pool              *pool  // the pool that neighbours are of, and
	metric            *inForce
	centre, deviation []float64
	local, global     projector[T] // B_Lᵀ(x−c), B_Gᵀ(x−c)
	transposed        []float64    // B_Lᵀ, over the active columns
	q                 []T          // the minibatch in coordinates
	rows              int
	few               []T // rows of the pool in the coordinates of B_G
	distances         distances
	neighbours        kernel.Neighbours[T]
	rounded           *kernel.Rounded // the pool's rows, about the centre; nil in float64
	scratch           kernel.Scratch[T]
	moments           kernel.Moments
}

func newEstimator(c Config) estimator {
	if c.Precision == lca.Float64 {
		return newTiles[float64](c.Dim)
	}
	t := newTiles[float32](c.Dim)
	t.rounded = new(kernel.Rounded)
	return t
}

func newTiles[T kernel.Float](dim int) *tiles[T] {
	t := &tiles[T]{dim: dim}
	t.scratch.Threads, t.local.coordinates.Threads = runtime.GOMAXPROCS(0), runtime.GOMAXPROCS(0)
	return t
}

func (t *tiles[T]) load(p *pool, m *inForce, w *linalg.Workspace) {
	n, d := len(m.Active), m.parzen
	same := t.number == m.number && t.pool == p
	t.n, t.parzen, t.number, t.pool, t.metric = n, d, m.number, p, m
	if !same {
		t.centre, t.deviation = append(t.centre[:0], m.centre...), linalg.Resize(t.deviation, t.dim)
		m.deviations(t.deviation)
		t.global.pack(m, m.b[d:], n, 1, n-d, t.centre, t.deviation)
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

// enter takes the pool's rows into the coordinates of B_G, a few at a time.
func (t *tiles[T]) enter(p *pool) {
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

func (t *tiles[T]) replace(slot, row int) {
	if slot < t.neighbours.Len() {
		t.neighbours.Set(slot, t.parzen, t.q[row*t.n+t.parzen:(row+1)*t.n])
		if t.rounded != nil {
			t.rounded.Set(slot, t.pool.row(slot), t.centre)
		}
	}
}

func (t *tiles[T]) place(x, mean []float64) {
	t.rows = len(x) / t.dim
	t.distances.begin(mean)
	t.q = linalg.Resize(t.q, t.rows*t.n)
	kernel.Beside(t.q, x, t.rows, &t.local.coordinates, &t.global.coordinates)
}

func (t *tiles[T]) update(ex kernel.Exclusion) *kernel.Moments {
	kernel.Update(&t.moments, &t.scratch, t.q, t.rows, &t.neighbours, ex)
	return &t.moments
}

// deviations sets dst to the standard deviations of the columns, ν_g included; 0 for constant ones.
func (m *inForce) deviations(dst []float64) {
	clear(dst)
	n := len(m.Active)
	for i, k := range m.Active {
		dst[k] = math.Sqrt(kernel.NormSquared(m.gaussian[i*n:][:i+1]))
	}
}
