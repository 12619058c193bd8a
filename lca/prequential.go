package lca

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// evaluate sets the prequential figures of s: the minibatch under the model before it is learnt,
//
//	−log p(x_i) = ½|B_Gᵀ(x_i−μ)|² + ½ d log 2π − log|det B| − log[(1/m) Σ_j exp(−½|B_Lᵀ(x_i−x_j)|²)]
//
// with m the number of admissible neighbours, over the rows that the gate let through: one row at
// 1000 standard deviations would say nothing about all others.
func (l *Learner) evaluate(m *kernel.Moments, rows []float64, s *Step) {
	densities := l.densities(m)
	l.single = resize(l.single, len(m.Used))
	if l.cfg.Metric == MetricFull {
		l.estimator.squares(l.single, l.half, l.metric, l.globals.mean, &l.work)
	} else {
		l.squares(l.single, rows, nil)
	}
	var nll, gaussian, effective float64
	for i, used := range m.Used {
		if m.Admissible[i] == 0 {
			s.Alone++
		}
		if !used {
			continue
		}
		nll += densities[i]
		gaussian += 0.5 * l.single[i]
		effective += m.Effective[i]
	}
	used := float64(m.Rows) // none: 0/0 is the NaN that stands for no figure
	n := len(l.metric.active)
	constant := 0.5*float64(n)*math.Log(2*math.Pi) + logDiagonal(l.metric.gaussian, n)
	s.NLL, s.GaussianNLL, s.Effective = nll/used, constant+gaussian/used, effective/used
}

// densities returns −log p of the rows of the last update that were used, NaN for the others; until the
// next call.
func (l *Learner) densities(m *kernel.Moments) []float64 {
	l.half, l.density = resize(l.half, len(m.Used)), resize(l.density, len(m.Used))
	l.estimator.gaussian(l.half, l.globals.mean)
	constant := 0.5*float64(len(l.metric.active))*math.Log(2*math.Pi) - l.metric.logVolume()
	admissible, log := int32(0), 0.0 // few rows have fewer neighbours than the others
	for i, used := range m.Used {
		if m.Admissible[i] != admissible {
			admissible = m.Admissible[i]
			log = math.Log(float64(admissible))
		}
		if l.density[i] = math.NaN(); used {
			l.density[i] = l.half[i] + constant - (m.LSE[i] - log)
		}
	}
	return l.density
}

// gaussian sets dst[i] to ½|B_Gᵀ(x_i−μ)|² for the rows placed.
func (t *tiles[T]) gaussian(dst []float64, mean []float64) {
	t.offset = t.global.offset(t.offset, mean, t.centre)
	for i := range dst {
		dst[i] = 0.5 * squaredFrom(t.q[i*t.n+t.parzen:(i+1)*t.n], t.offset)
	}
}

// squaredFrom is |x−o|² in four chains, by index mod 4.
func squaredFrom[T kernel.Float](x []T, o []float64) float64 {
	var s [4]float64
	o = o[:len(x)]
	for ; len(x) >= 4; x, o = x[4:], o[4:] {
		a, b, c, d := float64(x[0])-o[0], float64(x[1])-o[1], float64(x[2])-o[2], float64(x[3])-o[3]
		s[0], s[1], s[2], s[3] = math.FMA(a, a, s[0]), math.FMA(b, b, s[1]), math.FMA(c, c, s[2]), math.FMA(d, d, s[3])
	}
	for k, v := range x {
		e := float64(v) - o[k]
		s[k] = math.FMA(e, e, s[k])
	}
	return (s[0] + s[2]) + (s[1] + s[3])
}

// squares sets dst[i] to (x_i−μ)ᵀ (C_G + ν_g)⁻¹ (x_i−μ), from half[i] = ½|B_Gᵀ(x_i−μ)|²: by Proposition 1
// Bᵀ(C_G + ν_g)B is diag(1/e_P, 1).
func (t *tiles[T]) squares(dst, half []float64, m *inForce, mean []float64, w *linalg.Workspace) {
	p := t.parzen
	t.offset = t.local.offset(t.offset, mean, t.centre)
	t.parts[0] = resize(t.parts[0], len(dst)*p)
	y := t.parts[0]
	for i := range dst {
		for k, v := range t.q[i*t.n:][:p] {
			y[i*p+k] = float64(v) - t.offset[k]
		}
	}
	if m.narrowed { // back into the coordinates of the split
		t.parts[1] = resize(t.parts[1], len(dst)*p)
		w.Product(t.parts[1], p, linalg.Dense(y, p), linalg.Dense(m.low, p).T(), len(dst), p, p, linalg.Set)
		y = t.parts[1]
	}
	for i := range dst {
		sum := 2 * half[i]
		for k, v := range y[i*p:][:p] {
			sum = math.FMA(float64(m.ratio[k]*v), v, sum)
		}
		dst[i] = sum
	}
}

// squares is the same for any family of metrics, where B may have nothing to do with C_G. The sparse columns
// of without are taken for μ; it returns how many columns are left.
func (l *Learner) squares(dst []float64, x []float64, without []sparse) (counted int) {
	m, d := l.metric, l.cfg.Dim
	n, counts := len(m.active), 0
	m.scratch[0] = resize(m.scratch[0], len(dst)*n)
	y := m.scratch[0]
	for j, k := range m.active {
		if slices.ContainsFunc(without, func(s sparse) bool { return s.column == k }) {
			for i := range dst {
				y[i*n+j] = 0
			}
			continue
		}
		counts++
		for i := range dst {
			y[i*n+j] = x[i*d+k] - l.globals.mean[k]
		}
	}
	l.work.SolveRight(linalg.Dense(m.gaussian, n), y, n, n, len(dst))
	for i := range dst {
		dst[i] = squared(y[i*n : (i+1)*n])
	}
	return counts
}
