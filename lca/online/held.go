package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// admitNats is by how much −log p of the pool's rows may rise, in the mean, when held rows enter the pool.
const admitNats = 2

// Refused rows are held until there are as many as the metric preset warms up on. Then each is scored against the others, as if they
// were in the pool: outliers stay alone, but the rows of a cluster that was never seen before have each other, and
// enter the pool. So a few rows of a new kind do not pass as if they were known, and a kind that lasts is learnt,
// without a restart that would forget the others. Equal rows are company if there are many, and not all at once: those
// of a sensor that is stuck come in a row, and those of a machine that is off come again.

// With Drift off nothing new is learnt, however many rows of it there are.

// hold keeps the rows of a minibatch that the gate has refused, and lets those that have company enter the pool when
// there are enough. kept are the rows that were not refused, ascending.
func (l *rowGate) hold(b pool.Batch, kept []int) {
	if !l.holdsRefused() || !l.usesScores() || len(kept) == b.Len() {
		return
	}
	for i := range b.IDs {
		if len(kept) > 0 && kept[0] == i {
			kept = kept[1:]
			continue
		}
		l.holdRow(b, i)
	}
}

// holdMoved keeps the rows of a minibatch in which a constant column has moved.
func (l *rowGate) holdMoved(all pool.Batch) {
	if l.holdsRefused() {
		for _, i := range l.moved {
			l.holdRow(all, i)
		}
	}
}

func (l *rowGate) holdsRefused() bool { return l.cfg.Drift || l.cfg.Finite }

func (l *rowGate) holdRow(b pool.Batch, i int) {
	l.held.Append(b.Part(i, i+1, l.cfg.Dim))
}

// admitHeld ends a holding that has enough rows.
func (l *rowGate) admitHeld() (entered int) {
	if l.held.Len() < max(warmupColumns*l.cfg.Dim, warmupRows) {
		return 0
	}
	known := l.withCompany(l.held)
	l.held = pool.Batch{}
	if known.Len() == 0 || !l.affordable(known) {
		return 0
	}
	l.place(known) // no E-step: the pool may have grown since it was loaded
	l.moments.learn(known.X, l.work)
	return l.offerToPool(known, l.kept)
}

// affordable reports whether the pool's rows stay nearly as likely when others enter the moments. No state changes.
func (l *rowGate) affordable(known pool.Batch) bool {
	was, estimator, spare := l.regime, l.estimator, l.spare
	defer func() {
		l.setRegime(was)
		l.estimator, l.spare = estimator, spare
	}()
	l.estimator = newEstimator(l.cfg)
	some := new(pool.Batch).Sample(l.pool.Batch(), gateRows, 0, l.cfg.Dim)
	before := slices.Clone(l.score(some))
	same := candidate{l.settings, l.metric.parzen, make([]float64, len(l.cl))}
	l.metric.current(same.cl, l.cl, l.cfg.Dim, l.work)
	l.moments = was.moments.clone()
	l.moments.learn(known.X, l.work)
	l.moments.keepConstant(was.moments) // a column that begins to move would cost as much as its unit says
	if err := l.begin(same); err != nil {
		return false
	}
	cost, _, _ := differences(l.score(some), before)
	return cost <= admitNats
}

// withCompany returns the rows whose scores would be within the gate if all of them were in the pool, with all directions
// Parzen: a new cluster may be far from μ in a direction that is Gaussian until C_G has seen it. Rows of one minibatch are no company.
func (l *rowGate) withCompany(b pool.Batch) pool.Batch {
	was, estimator := l.regime, l.estimator
	defer func() { l.regime, l.estimator = was, estimator }()
	all := *was.metric
	all.parzen, all.narrowed, all.alone = len(all.Active), false, false
	l.metric, l.pool, l.gap = &all, pool.New(b.Len(), l.cfg.Dim), max(l.gap, uint64(l.cfg.Minibatch))
	l.estimator = newEStep[float64](l.cfg) // rows that are far from the pool may be near each other
	l.offerToPool(b, nil)
	limit := l.gate.limit + math.Log(float64(b.Len())/float64(was.pool.Len()))
	var known []int
	_, scores := l.sums(b)
	for i, v := range scores {
		if v <= limit {
			known = append(known, i)
		}
	}
	return new(pool.Batch).Pick(b, known, l.cfg.Dim)
}
