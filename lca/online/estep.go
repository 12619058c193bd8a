package online

import (
	"math"
	"runtime"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// estimator is the E-step of a stream: λ (eqs. 3, 4) of a minibatch against the pool, and its
// average local covariance. All of it happens in coordinates z = Bᵀ(x−c) that are centred on the
// pool and whitened by the whole metric: there Ĉ_L is near the identity, so that float32 loses
// nothing to cancellation, and the first d_P coordinates are the Parzen part.
type estimator interface {
	// load brings the pool's rows into the coordinates of m. Between two splits the centre stays, and so do
	// all coordinates but the first d_P, except those of rows that replace has changed.
	load(p *pool.Pool, m *metricState, w *linalg.Workspace)
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
func (l *model) renewEstimator() {
	if l.cfg.Neighbours*l.cfg.Dim > keptElements {
		l.estimator = newEstimator(l.cfg)
		return
	}
	l.estimator.forget()
}

// eStep is the estimator in one precision.
type eStep[T kernel.Float] struct {
	dim, n, parzen    int          // d, the number of active columns, d_P
	number, frame     uint64       // of the split in whose coordinates the neighbours are, and of that with their centre
	pool              *pool.Pool   // that the neighbours were loaded from
	points            int          // of it; where a Gaussian is all there is, no more is known of them
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

func (t *eStep[T]) load(p *pool.Pool, m *metricState, w *linalg.Workspace) {
	n, d := len(m.Active), m.parzen
	same, framed := t.number == m.number && t.pool == p, t.frame == m.frame && t.pool == p
	t.n, t.parzen, t.number, t.frame, t.pool, t.metric = n, d, m.number, m.frame, p, m
	if !framed {
		t.centre, t.deviation = append(t.centre[:0], m.centre...), linalg.Resize(t.deviation, t.dim)
		m.deviations(t.deviation)
		t.constant = m.Constant(t.dim)
	}
	if thin := m.form != wholeForm; !same && thin {
		t.global.packThin(m, d, n, t.centre, t.deviation)
	} else if !same {
		t.global.pack(m, m.basis[d:], n, 1, n-d, t.centre, t.deviation)
	}
	framed = framed && t.neighbours.Len() == p.Len()
	if m.alone {
		t.neighbours.Reset(0, n, 0)
	} else if !same || !framed {
		t.neighbours.Reset(p.Len(), n, d)
		if t.rounded != nil && !framed {
			t.rounded.Reset(p.Rows, p.Len(), t.centre)
		}
		t.enter(p)
	}
	if m.form != wholeForm {
		t.local.packThin(m, 0, d, t.centre, t.deviation)
	} else {
		t.transposed = m.local(t.transposed, w)
		t.local.pack(m, t.transposed, 1, n, d, t.centre, t.deviation)
	}
	if t.points = p.Len(); !m.alone {
		t.local.coordinates.Load(&t.neighbours, p.Rows, t.rounded)
	}
}

// enter projects the pool's rows by B_G, a few at a time.
func (t *eStep[T]) enter(p *pool.Pool) {
	const few = 64
	g := t.n - t.parzen
	t.few = linalg.Resize(t.few, few*g)
	for first := 0; g > 0 && first < p.Len(); first += few {
		rows := min(few, p.Len()-first)
		t.global.coordinates.Apply(t.few, p.Rows[first*t.dim:], rows)
		for i := range rows {
			t.neighbours.Set(first+i, t.parzen, t.few[i*g:(i+1)*g])
		}
	}
}

func (t *eStep[T]) replace(slot, row int) {
	if slot < t.neighbours.Len() {
		t.neighbours.Set(slot, t.parzen, t.q[row*t.n+t.parzen:(row+1)*t.n])
		if t.rounded != nil {
			t.rounded.Set(slot, t.pool.Row(slot), t.centre)
		}
	}
}

func (t *eStep[T]) forget() { t.pool, t.metric, t.number, t.frame = nil, nil, 0, 0 }

func (t *eStep[T]) project(x, mean []float64) {
	t.rows = len(x) / t.dim
	t.distances.reset(mean)
	t.distances.depart(x, t.constant, t.dim)
	t.q = linalg.Resize(t.q, t.rows*t.n)
	kernel.ProjectPair(t.q, x, t.rows, &t.local.coordinates, &t.global.coordinates)
}

func (t *eStep[T]) departures() []float64 { return t.distances.departed }

func (t *eStep[T]) update(ex kernel.Exclusion) *kernel.Moments {
	if t.metric.alone {
		kernel.Evenly(&t.moments, t.rows, t.points, ex)
		return &t.moments
	}
	ex.Diagonal = t.metric.form == axesForm
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

// distances are the distances of a minibatch's projected rows from μ. The gate and the prequential figures both need
// them, so they are computed once and kept until the next project.
type distances struct {
	mean            []float64
	half, square    []float64
	halved, squared bool
	departed        []float64 // by the constant columns; nil: not at all

	offset  []float64
	centred [2][]float64
}

// reset drops the distances of the previous rows.
func (d *distances) reset(mean []float64) { d.mean, d.halved, d.squared = mean, false, false }

// depart sets what the constant columns of the rows of x cost.
func (d *distances) depart(x []float64, constant []int, dim int) {
	d.departed = nil
	for _, k := range constant {
		for i, level := 0, d.mean[k]; i*dim < len(x); i++ {
			nats := prop1.Departure(x[i*dim+k], level)
			if nats == 0 {
				continue
			}
			if d.departed == nil {
				d.departed = make([]float64, len(x)/dim)
			}
			d.departed[i] += nats
		}
	}
}

func (t *eStep[T]) halfSquares() []float64 {
	d := &t.distances
	if d.halved {
		return d.half
	}
	d.halved, d.half = true, linalg.Resize(d.half, t.rows)
	d.offset = t.global.of(d.offset, d.mean)
	kernel.SquaredDistances(d.half, t.q[min(t.parzen, len(t.q)):], t.n, d.offset)
	for i := range d.half {
		d.half[i] *= 0.5
	}
	return d.half
}

// mahalanobis follows from halfSquares, because Bᵀ(C_G + ν_g)B is diag(1/e_P, 1) by Proposition 1.
func (t *eStep[T]) mahalanobis(w *linalg.Workspace) []float64 {
	d, p, m := &t.distances, t.parzen, t.metric
	if d.squared {
		return d.square
	}
	half := t.halfSquares()
	d.squared, d.square = true, linalg.Resize(d.square, t.rows)
	d.offset = t.local.of(d.offset, d.mean)
	d.centred[0] = linalg.Resize(d.centred[0], t.rows*p)
	y := d.centred[0]
	for i := range t.rows {
		to := y[i*p:][:p]
		for k, v := range t.q[i*t.n:][:p] {
			to[k] = float64(v) - d.offset[k]
		}
	}
	if m.narrowed { // back into the coordinates of the split
		d.centred[1] = linalg.Resize(d.centred[1], t.rows*p)
		w.Product(d.centred[1], p, linalg.Dense(y, p), linalg.Dense(m.low, p).T(), t.rows, p, p, linalg.Set)
		y = d.centred[1]
	}
	for i, h := range half {
		d.square[i] = 2 * h
	}
	addWeighted(d.square, y, m.ratio[:p])
	return d.square
}

// addWeighted adds Σ_k w_k y_ik² to dst[i], in one chain of multiply-adds per row. It takes four rows at a time,
// because with a single chain the processor would wait for each addition.
func addWeighted(dst, y, w []float64) {
	p := len(w)
	for ; len(dst) >= 4; dst, y = dst[4:], y[4*p:] {
		a, b, c, d := y[:p], y[p:2*p], y[2*p:3*p], y[3*p:4*p]
		s := [4]float64(dst)
		for k, v := range w {
			s[0] = math.FMA(float64(v*a[k]), a[k], s[0])
			s[1] = math.FMA(float64(v*b[k]), b[k], s[1])
			s[2] = math.FMA(float64(v*c[k]), c[k], s[2])
			s[3] = math.FMA(float64(v*d[k]), d[k], s[3])
		}
		copy(dst, s[:])
	}
	for i := range dst {
		for k, v := range y[i*p:][:p] {
			dst[i] = math.FMA(float64(w[k]*v), v, dst[i])
		}
	}
}

// projector brings rows of the input into some of the coordinates Bᵀ(x−c).
type projector[T kernel.Float] struct {
	out         int
	w           []float64 // Bᵀ over all columns, out×dim
	coordinates kernel.Coordinates[T]
	one         []T // row

	column []int // of a thin B
	weight []float64
}

// pack sets B to out columns of b over the columns that are active in m: element (i, j) of B is
// b[i·row + j·col]. deviation is the standard deviation of each column.
func (p *projector[T]) pack(m *metricState, b []float64, row, col, out int, centre, deviation []float64) {
	dim := len(centre)
	p.out = out
	if len(m.Active) == dim && row == 1 && col == dim {
		p.coordinates.Pack(centre, b, dim, out, deviation)
		return
	}
	p.w = linalg.Resize(p.w, out*dim)
	if len(m.Active) < dim {
		clear(p.w)
	}
	const line = 8 // coordinates at a time: a line of the cache
	for first := 0; first < out; first += line {
		for i, k := range m.Active {
			for j := first; j < min(first+line, out); j++ {
				p.w[j*dim+k] = b[i*row+j*col]
			}
		}
	}
	p.coordinates.Pack(centre, p.w, dim, out, deviation)
}

// of writes the coordinates of one row.
func (p *projector[T]) of(dst []float64, x []float64) []float64 {
	dst, p.one = linalg.Resize(dst, p.out), linalg.Resize(p.one, p.out)
	p.coordinates.Apply(p.one, x, 1)
	for k, v := range p.one {
		dst[k] = float64(v)
	}
	return dst
}
