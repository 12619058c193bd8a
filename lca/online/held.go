package online

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

// admitNats is by how much −log p of the pool's rows may rise, in the mean, when held rows enter the pool.
const admitNats = 2

// Refused rows are held until there are as many as the metric preset warms up on. Then each is scored against the others, as if they
// were in the pool: outliers stay alone, but the rows of a cluster that was never seen before have each other, and
// enter the pool. So a few rows of a new kind do not pass as if they were known, and a kind that lasts is learnt,
// without a restart that would forget the others. Equal rows are company if there are many, and not all at once: those
// of a sensor that is stuck come in a row, and those of a machine that is off come again.

// With Drift off nothing new is learnt, however many rows of it there are, and the rows that are held serve knowngood.go alone.

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
	if l.cfg.keepsKnown() || l.held.Len() < max(warmupColumns*l.cfg.Dim, warmupRows) {
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
// Parzen: a new cluster may be far from μ in a direction that is Gaussian until C_G has seen it.
func (l *rowGate) withCompany(b pool.Batch) pool.Batch {
	m, n := l.metric, len(l.metric.Active)
	constant := 0.5*float64(n)*math.Log(2*math.Pi) - m.logVolume() + math.Log(float64(l.pool.Len()))
	var known []int
	for i, near := range l.company(b, l.coordinates(b), n) {
		if constant-near <= l.gate.limit {
			known = append(known, i)
		}
	}
	return new(pool.Batch).Pick(b, known, len(m.centre))
}

// companyRows is the number of rows that one product of matrices compares with all others.
const companyRows = 64

// company returns log Σ exp(−½|z_i−z_j|²) over the other rows; of many columns each term of the sum may be too small for a float64.
func (l *rowGate) company(b pool.Batch, z []float64, n int) []float64 {
	rows := b.Len()
	sums, squares, products := make([]float64, rows), make([]float64, rows), make([]float64, companyRows*rows)
	for i := range rows {
		squares[i] = kernel.NormSquared(z[i*n:][:n])
	}
	for first := 0; first < rows; first += companyRows {
		some := min(companyRows, rows-first)
		l.work.Product(products, rows, linalg.Dense(z[first*n:], n), linalg.Dense(z, n).T(), some, rows, n, linalg.Set)
		for i := range some {
			distances := products[i*rows:][:rows]
			for j, v := range distances {
				both := squares[first+i] + squares[j]
				if distances[j] = both - 2*v; distances[j] < cancels*both {
					kernel.SquaredDistances(distances[j:j+1], z[j*n:], n, z[(first+i)*n:][:n])
				}
			}
			sums[first+i] = l.logCompany(b, first+i, distances, kernel.NearCopy*float64(n))
		}
	}
	return sums
}

// cancels is the squared distance, as a share of the squares that it is the rest of, below which it is computed from the coordinates themselves.
const cancels = 1e-9

// logCompany is company for row i, whose distances it overwrites. Near copies count as long as they are many, and not all at once.
func (l *rowGate) logCompany(b pool.Batch, i int, distances []float64, near float64) float64 {
	equal := 0.0
	for j, v := range distances {
		distances[j] = math.Inf(-1)
		switch {
		case b.IDs[i] == b.IDs[j] || b.Places[i].Near(b.Places[j], l.gap):
		case v >= near:
			distances[j] = -0.5 * v
		case v < near && !b.Places[i].Near(b.Places[j], uint64(l.cfg.Minibatch)): // squares of numbers that overflow have no distance
			equal++
		}
	}
	if equal >= kernel.AtomCopies {
		distances[i] = math.Log(equal) // in the place of the row itself
	}
	return floats.LogSumExp(distances)
}

// coordinates returns Bᵀ(x−c) by the B of the last split.
func (l *rowGate) coordinates(b pool.Batch) []float64 {
	m, d, n := l.metric, l.cfg.Dim, len(l.metric.Active)
	centred, z := make([]float64, b.Len()*n), make([]float64, b.Len()*n)
	for i := range b.IDs {
		for j, k := range m.Active {
			centred[i*n+j] = b.X[i*d+k] - m.centre[k]
		}
	}
	l.work.Product(z, n, linalg.Dense(centred, n), linalg.Dense(m.dense(l.work), n), b.Len(), n, n, linalg.Set)
	return z
}
