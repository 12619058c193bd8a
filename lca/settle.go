package lca

import "math"

const (
	settleColumns = 20   // rows a column below which EM to convergence fits the rows and not the stream
	settleSteps   = 50   // EM steps at most
	settleGain    = 1e-3 // nats a row: converged
)

// settle is the first update: EM on the warm-up rows, each against all others, until a step gains
// nothing. C_L starts from C_G, which is far too wide, and a minibatch at a time needs a thousand rows
// to come down from there; rows that are at hand can be gone through again. The scores of a young
// stream, and the gate, which measures in kernel widths, are then right from the first model on.
//
// With fewer than 20 rows a column the converged metric is that of those rows alone, and worse on
// the next than the few steps of growth.go; a number of inner steps, or γ = 0, says that the caller
// counts the steps. All of these begin with the first minibatch after the warm-up instead.
func (l *Learner) settle(rows []float64, ids []uint64, s *Step) error {
	if l.cfg.InnerSteps != Auto || (l.cfg.Gamma == 0 && l.cfg.HalfLifeRows == 0) ||
		len(ids) < settleColumns*len(l.metric.active) {
		return nil
	}
	for last := math.Inf(1); s.Steps < settleSteps; s.Steps++ {
		l.estimator.load(l.pool, l.metric)
		ex := l.exclusion(ids)
		// A narrower gate than the default would shut out much of the data while C_L comes down.
		ex.Gate = math.Max(l.cfg.gate(l.metric.parzen), Config{OutlierGate: Auto}.gate(l.metric.parzen))
		m := l.estimator.update(rows, ex)
		now := *s
		l.evaluate(m, rows, &now)
		if s.Learnt = m.Rows; m.Rows == 0 || !(last-now.NLL > settleGain) {
			break
		}
		last = now.NLL
		l.metric.localCovariance(l.cl, l.cfg.Dim, m)
		if _, err := l.refresh(1); err != nil {
			return err
		}
		l.split = true
	}
	if !l.split {
		return nil
	}
	s.Parzen, s.Gaussian, s.Ridged = l.metric.parzen, len(l.metric.active)-l.metric.parzen, l.metric.ridged
	l.counts.Learnt += uint64(s.Learnt)
	l.counts.Since += uint64(s.Learnt)
	l.counts.Minibatches++
	return l.aligned.advance(l)
}
