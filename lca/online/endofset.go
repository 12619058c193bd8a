package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// A set may end before it has as many rows as a stream warms up on, or as many as EM needs: 3000 where rows are alike for long, and twenty per column. Waiting
// does not help then. So its model is of the rows that there are. Of few per column it is a single Gaussian with
//
//	(1−a) C_G + a diag(C_G)
//
// where a makes the rows most likely, each without its own part in μ and C_G: directions in which they hardly vary may be chance, or the relation
// between columns that a fault breaks, and only the rows left out can tell.

// spareRows is the least number of rows that a set has beyond one for each column that varies.
const spareRows = 2

// shrinkages are the a that are tried.
var shrinkages = [...]float64{0, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1}

// endWarmup fits the rows of a set that has ended in its warm-up, unless there are too few to tell anything. few says that there is nothing to choose by them.
func (l *Learner) endWarmup() (few bool, err error) {
	d, rows := l.cfg.Dim, l.warm
	if l.metric != nil { // they have waited for the first minibatch
		rows = l.pool.Batch()
	}
	if rows.Len() == 0 {
		return true, nil
	}
	if kept := screen(rows.X, d); len(kept) < rows.Len() {
		l.counts.Gated += uint64(rows.Len() - len(kept))
		rows = new(pool.Batch).Pick(rows, kept, d)
	}
	l.moments.start(rows.X, l.work)
	active := len(l.moments.columnScale(l.cfg.NuUnit).Active)
	if l.wanted = active + spareRows; active == 0 || rows.Len() < l.wanted {
		return true, nil
	}
	l.wanted, l.warm = max(l.warmupWanted(), rows.Len()+1), pool.Batch{} // a stream that has warmed up waits for its first minibatch
	if rows.Len() >= replayRowsPerColumn*active {
		if _, err := l.initialise(rows, Step{}); err != nil || l.split {
			return false, err
		}
		rows = l.pool.Batch()
	}
	return true, l.fitFew(rows)
}

// fitFew makes a single Gaussian of few rows.
func (l *Learner) fitFew(b pool.Batch) error {
	if _, err := l.fitFirst(b, new(Step)); err != nil {
		return err
	}
	if !l.cfg.wide() { // which shrink at each use
		l.shrinkMoments(b)
	}
	if err := l.begin(candidate{recipe: l.settings, cl: l.moments.full()}); err != nil {
		return err
	}
	l.insideGate(b)
	_, err := l.begun(Step{Learnt: b.Len()}, b.Len(), 0)
	return err
}

// shrinkMoments chooses a, and sets C_G to what is left of it.
func (l *Learner) shrinkMoments(b pool.Batch) {
	f, d := l.moments.columnScale(l.cfg.NuUnit), l.cfg.Dim
	n := len(f.Active)
	whole := f.Sub(nil, l.moments.full(), d, 0)
	centred := make([]float64, b.Len()*n)
	for i := range b.IDs {
		for j, k := range f.Active {
			centred[i*n+j] = b.X[i*d+k] - l.moments.mean[k]
		}
	}
	best, least := 1.0, math.Inf(1)
	for _, a := range shrinkages {
		if nll := l.withoutEach(shrink(slices.Clone(whole), n, a), centred, n, 1-a); nll < least {
			best, least = a, nll
		}
	}
	for i, row := range f.Active {
		for j, column := range f.Active {
			if i != j {
				l.moments.cov[row*d+column] = (1 - best) * whole[i*n+j]
			}
		}
	}
}

// withoutEach returns the mean over the rows, less the mean, of −log of a Gaussian's density without what does not depend on a, each without its own part in μ and
// in that share of the covariance C. With w the weight of a row and q its square by C⁻¹, by Sherman and Morrison
//
//	Q = q / ((1−w)² (1 − share w q)),   log det = log det C + log(1 − share w q)
//
// Rows that are near in time count as independent. Were they fewer, nearly all series of some hundred rows would have a = 1.
func (l *Learner) withoutEach(c, centred []float64, n int, share float64) float64 {
	low := make([]float64, n*n)
	if ridged, err := prop1.Factor(low, c, n, l.work); ridged || err != nil {
		return math.Inf(1)
	}
	y, rows := append([]float64(nil), centred...), len(centred)/n
	l.work.SolveRight(linalg.Dense(low, n), y, n, n, rows)
	sum, w := 0.0, 1/float64(rows)
	for i := range rows {
		q := kernel.NormSquared(y[i*n : (i+1)*n])
		own := max(1-share*w*q, 1e-9)
		sum += 0.5*q/((1-w)*(1-w)*own) + 0.5*math.Log(own)
	}
	return sum/float64(rows) + prop1.LogDiagonal(low, n)
}
