package streams

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// Result is what a learner made of a stream. NLLs are of rows that it has not seen, in nats per row.
type Result struct {
	Excess   float64 // above the NLL of the law itself
	Gaussian float64 // above the NLL of a single Gaussian with the moments of the fresh rows
	Refused  float64 // share of the rows after the warm-up that were not learnt
	Alarms   float64 // restarts
	Returns  float64 // former metrics that became current again
	Recovery float64 // most rows after a return of a regime until the NLL is within 1 nat of that at its end; NaN elsewhere
	First    float64 // rows until the first model
}

// Measure learns a stream. An error is one of the learner, or no model at the end.
func Measure(c online.Config, t Trial) (Result, error) {
	l, err := online.NewLearner(c)
	if err != nil {
		return Result{}, err
	}
	defer l.Close()
	n, d := t.Rows.Dims()
	run := run{learner: l, trial: t}
	for i := 0; i+c.Minibatch <= n; i += c.Minibatch {
		ids := make([]uint64, c.Minibatch)
		for k := range ids {
			ids[k] = uint64(i + k)
		}
		s, err := l.Learn(t.Rows.Slice(i, i+c.Minibatch, 0, d).(*mat.Dense), ids, nil)
		if err != nil {
			return Result{}, fmt.Errorf("streams: row %d: %w", i, err)
		}
		run.add(s, i+c.Minibatch)
	}
	return run.result()
}

// run follows a learner over a trial.
type run struct {
	learner *online.Learner
	trial   Trial
	first   int       // rows until the first model
	refused int       // rows after it that were not learnt
	alarms  int       // restarts
	returns int       // former metrics that became current again
	path    []float64 // NLL of each minibatch before it is learnt
}

func (r *run) add(s online.Step, rows int) {
	r.path = append(r.path, s.NLL)
	switch s.Alarm {
	case online.AlarmDrift, online.AlarmLockout:
		r.alarms++
	case online.AlarmRegimeReturned:
		r.returns++
	case online.AlarmNone, online.AlarmRefused:
	}
	if r.first == 0 {
		if !s.Warmup || s.Learnt > 0 {
			r.first = rows
		}
		return
	}
	r.refused += s.Gated + s.Quarantined
}

func (r *run) result() (Result, error) {
	m, err := r.learner.Model()
	if err != nil {
		return Result{}, fmt.Errorf("streams: %w", err)
	}
	n, _ := r.trial.Rows.Dims()
	nll := meanNLL(m, r.trial.Fresh)
	return Result{
		Excess: nll - r.trial.Truth, Gaussian: nll - gaussianNLL(r.trial.Fresh),
		Refused: float64(r.refused) / float64(n-r.first), Alarms: float64(r.alarms), Returns: float64(r.returns), Recovery: r.recovery(), First: float64(r.first),
	}, nil
}

// recovery returns the most rows after a return of a regime until the NLL of a minibatch is within 1 nat of that of the
// regime's last ten.
func (r *run) recovery() float64 {
	n, _ := r.trial.Rows.Dims()
	if r.trial.Every == 0 {
		return math.NaN()
	}
	minibatch := n / len(r.path)
	regime := r.trial.Every / minibatch
	most := 0.0
	for first := 2 * regime; first < len(r.path); first += regime {
		path, steady := r.path[first:first+regime], 0.0
		for _, v := range path[regime-10:] {
			steady += v / 10
		}
		rows := 0
		for rows < regime && !(path[rows] < steady+1) {
			rows++
		}
		most = max(most, float64(rows*minibatch))
	}
	return most
}

func meanNLL(m *lca.Model, x *mat.Dense) float64 {
	n, _ := x.Dims()
	sum := 0.0
	for _, v := range m.LogDensity(nil, x) {
		sum -= v
	}
	return sum / float64(n)
}

// gaussianNLL is the NLL of rows under the Gaussian with their own moments: ½ (log det C + d log 2π + d).
func gaussianNLL(x *mat.Dense) float64 {
	n, d := x.Dims()
	mean := make([]float64, d)
	for i := range n {
		for k, v := range x.RawRowView(i) {
			mean[k] += v / float64(n)
		}
	}
	c := mat.NewSymDense(d, nil)
	for i := range n {
		row := make([]float64, d)
		for k, v := range x.RawRowView(i) {
			row[k] = v - mean[k]
		}
		c.SymRankOne(c, 1/float64(n), mat.NewVecDense(d, row))
	}
	var factor mat.Cholesky
	if !factor.Factorize(c) {
		return math.NaN()
	}
	return 0.5 * (factor.LogDet() + float64(d)*(math.Log(2*math.Pi)+1))
}
