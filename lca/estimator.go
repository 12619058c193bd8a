package lca

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// estimator is the E-step of a stream: λ (eqs. 3, 4) of a minibatch against the pool, and its
// average local covariance. All of it happens in coordinates z = Bᵀ(x−c) that are centred on the
// pool and whitened by the whole metric: there Ĉ_L is near the identity, so that float32 loses
// nothing to cancellation, and the first d_P coordinates are the Parzen part.
type estimator interface {
	// load takes the pool's rows into the coordinates of m. From one split to the next the centre stays,
	// and so do all but the first d_P coordinates of the rows that were there before.
	load(p *pool, m *inForce, w *linalg.Workspace)
	// place takes rows of the input into those coordinates.
	place(x []float64)
	// update runs the E-step for the rows placed; see kernel.Update. The result is valid until
	// the next call.
	update(ex kernel.Exclusion) *kernel.Moments
	// gaussian sets dst[i] to ½|B_Gᵀ(x_i−μ)|² for the rows placed.
	gaussian(dst []float64, mean []float64)
	// squares sets dst[i] to (x_i−μ)ᵀ (C_G + ν_g)⁻¹ (x_i−μ), from half as gaussian sets it.
	squares(dst, half []float64, m *inForce, mean []float64, w *linalg.Workspace)
}

// tiles is the estimator in one precision.
type tiles[T kernel.Float] struct {
	dim, n, parzen    int
	number            uint64 // the split and
	pool              *pool  // the pool that z is of
	centre, deviation []float64
	local, global     projector[T] // B_Lᵀ(x−c), B_Gᵀ(x−c)
	transposed        []float64    // B_Lᵀ, over the active columns
	z, q              []T          // the pool and the minibatch in coordinates
	rows              int
	entered           []float64 // rows that came into the pool since the last load, and
	fresh             []T       // their coordinates
	offset            []float64
	parts             [2][]float64
	neighbours        kernel.Neighbours[T]
	scratch           kernel.Scratch[T]
	moments           kernel.Moments
}

func newEstimator(c Config) estimator {
	if c.Precision == Float64 {
		return &tiles[float64]{dim: c.Dim}
	}
	return &tiles[float32]{dim: c.Dim}
}

func (t *tiles[T]) load(p *pool, m *inForce, w *linalg.Workspace) {
	n, d := len(m.active), m.parzen
	same := t.number == m.number && t.pool == p
	t.n, t.parzen, t.number, t.pool = n, d, m.number, p
	if !same {
		t.centre, t.deviation = append(t.centre[:0], m.centre...), resize(t.deviation, t.dim)
		m.deviations(t.deviation)
		t.global.pack(m, m.b[d:], n, 1, n-d, t.centre, t.deviation)
	}
	t.transposed = m.local(t.transposed, w)
	t.local.pack(m, t.transposed, 1, n, d, t.centre, t.deviation)
	if d == n { // straight into the panels
		t.local.coordinates.Load(&t.neighbours, p.rows, p.len(), n)
		p.changed = p.changed[:0]
		return
	}
	t.z = extended(t.z, p.len()*n)
	t.local.apply(t.z, n, p.rows)
	if same {
		t.enter(p)
	} else {
		t.global.apply(t.z[d:], n, p.rows)
	}
	p.changed = p.changed[:0]
	t.neighbours.Pack(t.z, p.len(), n, d)
}

// enter takes the rows that came into the pool since the last load into the coordinates of B_G.
func (t *tiles[T]) enter(p *pool) {
	t.entered = t.entered[:0]
	for _, slot := range p.changed {
		t.entered = append(t.entered, p.row(int(slot))...)
	}
	g := t.n - t.parzen
	t.fresh = resize(t.fresh, len(p.changed)*g)
	t.global.apply(t.fresh, g, t.entered)
	for i, slot := range p.changed {
		copy(t.z[int(slot)*t.n+t.parzen:], t.fresh[i*g:(i+1)*g])
	}
}

func (t *tiles[T]) place(x []float64) {
	t.rows = len(x) / t.dim
	t.q = resize(t.q, t.rows*t.n)
	t.local.apply(t.q, t.n, x)
	if t.rows > 0 && t.parzen < t.n {
		t.global.apply(t.q[t.parzen:], t.n, x)
	}
}

func (t *tiles[T]) update(ex kernel.Exclusion) *kernel.Moments {
	kernel.Update(&t.moments, &t.scratch, t.q, t.rows, &t.neighbours, ex)
	return &t.moments
}

// deviations sets dst to the standard deviations of the columns, ν_g included; 0 for constant ones.
func (m *inForce) deviations(dst []float64) {
	clear(dst)
	n := len(m.active)
	for i, k := range m.active {
		dst[k] = math.Sqrt(squared(m.gaussian[i*n:][:i+1]))
	}
}

// resize returns a slice of length n, reusing s where it can.
func resize[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}

// extended is resize that keeps what there is.
func extended[E any](s []E, n int) []E {
	if cap(s) < n {
		return append(make([]E, 0, n), s...)[:n]
	}
	return s[:n]
}
