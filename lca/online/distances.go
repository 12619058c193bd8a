package online

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

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
