package online

import (
	"math"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// A row with a larger squared Mahalanobis distance per direction, 3,000 standard deviations in the root mean square, is outside of what
// the rows before it span.
const offSpan = 1e7

// evaluate sets the prequential figures of s: the minibatch under the model before it is learnt,
//
//	−log p(x_i) = ½|B_Gᵀ(x_i−μ)|² + ½ d log 2π − log|det B| − log[(1/m) Σ_j exp(−½|B_Lᵀ(x_i−x_j)|²)]
//
// with m the number of admissible neighbours (t kernels as in lca.Model.LogDensity), averaged over the rows that the gate let pass: a single row at
// 1000 standard deviations would hide all others. Where the gate leaves columns out, a row may pass that is in none of the
// directions of those before it. Columns that first moved in the same row, for one, are the same column until the next row tells them
// apart. Such a row has no likelihood, and is left out as well, as is one in which a column moves for the first time.
func (l *model) evaluate(m *kernel.Moments, rows []float64, s *Step) {
	squares, departed := l.family.mahalanobis(l, rows), l.estimator.departures()
	n := float64(len(l.metric.Active))
	var nll, gaussian, effective, counted float64 // none counted: 0/0 is the NaN that stands for no figure
	for i, score := range l.densities(m) {
		if m.Admissible[i] == 0 {
			s.Alone++
		}
		if !m.Used[i] || squares[i] > offSpan*n || departed != nil && departed[i] > 0 {
			continue
		}
		counted++
		nll += score
		gaussian += 0.5 * squares[i]
		effective += m.Effective[i]
	}
	s.NLL, s.Effective = nll/counted, effective/counted
	s.GaussianNLL = l.metric.gaussianConstant() + gaussian/counted
}

// gaussianConstant is −log p of μ under the single Gaussian.
func (m *metricState) gaussianConstant() float64 {
	n := len(m.Active)
	return 0.5*float64(n)*math.Log(2*math.Pi) + prop1.LogDiagonal(m.gaussian, n)
}

// figureColumns is the least independent rows per column of a set whose figures are known: of fewer, a row's score cannot be told from that of one that had no part
// in the metric.
const figureColumns = 5

// Of a set of longRunning times runningRows the first metrics hardly count in the running figures.
const longRunning = 5

// judgeSet sets the figures of Info to those of the current metric, once a set of rows has ended: the means over the pool, with each row scored as one that had
// no part in it. So it is no neighbour of itself; it has no part in μ and C_G (ownPart); and for each number of C_L that the Parzen directions have for
// themselves, the mean rises by a nat (ownNumbers). The running figures are of the metrics before it: of a few hundred rows they are mostly those
// of the first ones, several nats above. In a long set they are right, and stay.
//
// Where rows of any column depend on those before them for long, a row has a part in the metric by its neighbours in time as well. If that leaves too few
// independent ones, there are no figures.
func (l *Learner) judgeSet() {
	if l.running.Weight >= runningRows && l.since >= longRunning*runningRows {
		return
	}
	if l.running.Weight < runningRows {
		l.running = running{}
	}
	if l.metric == nil || l.counts.Minibatches == 0 {
		return
	}
	n, p := len(l.metric.Active), l.metric.parzen
	l.dependence.Measure(l.pool.Batch(), l.cfg.Dim)
	independent := l.moments.independent(max(l.gap, l.dependence.Slowest(l.cfg.Neighbours)))
	if independent < float64(figureColumns*n) {
		return
	}
	b := new(pool.Batch).Sample(l.pool.Batch(), sampleRows, 0, l.cfg.Dim)
	m, scores := l.sums(b)
	half, squares := l.estimator.halfSquares(), l.family.mahalanobis(&l.model, b.X)
	w, own, all := 1/independent, 1-l.shrinkage(p), float64(n)
	constant := l.metric.gaussianConstant()
	var r running
	for i, score := range scores {
		if math.IsNaN(score) {
			continue
		}
		r.Weight++
		r.NLL += score + ownPart(half[i], w, own, all-float64(p))
		r.GaussianNLL += constant + 0.5*squares[i] + ownPart(0.5*squares[i], w, own, all)
		r.Effective += m.Effective[i]
	}
	if r.Weight > 0 {
		r.NLL, r.GaussianNLL, r.Effective = r.NLL/r.Weight+l.ownNumbers()/min(independent, float64(l.pool.Len())), r.GaussianNLL/r.Weight, r.Effective/r.Weight
		l.running = r
	}
}

// runningRows is the memory of the figures in Info, in rows: about that of C_L.
const runningRows = 3000

// running are the means of Step's figures over the recent past. A young stream's are plain means.
type running struct {
	Weight                      float64 // rows that the means stand for, ≤ runningRows
	NLL, GaussianNLL, Effective float64
}

func (r *running) add(s *Step) {
	if s.Learnt == 0 || math.IsNaN(s.NLL) || math.IsInf(s.NLL, 0) {
		return
	}
	r.Weight = min(r.Weight+float64(s.Learnt), max(runningRows, float64(s.Learnt)))
	w := float64(s.Learnt) / r.Weight
	r.NLL += float64(w * (s.NLL - r.NLL))
	r.GaussianNLL += float64(w * (s.GaussianNLL - r.GaussianNLL))
	r.Effective += float64(w * (s.Effective - r.Effective))
}
