package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

const (
	gateShare       = 5e-4 // share of the pool's own rows that the gate would refuse
	gateRows        = 500  // rows of the pool whose scores set the gate
	gateMinibatches = 128  // minibatches between two revisions, which cost as much as five
)

// scoreGate is the score −log p beyond which a row is not learnt: the (1 − 5·10⁻⁴) quantile of the leave-one-out scores
// of the pool's rows, by their tail. These are what a fresh row scores if it is like the pool's.
type scoreGate struct {
	limit float64 // +Inf: unknown, so that all rows pass
	turn  uint64  // revisions so far
}

// usesScores reports whether the gate is by scores.
func (l *Learner) usesScores() bool {
	return l.cfg.OutlierGate == lca.Auto && len(l.moments.sparse) == 0
}

// knowsScores reports whether the pool's rows are enough for their scores to say what a fresh row scores. They are left out
// of their own neighbours, but not of μ and C_G. Of few rows per column, each far one has a direction nearly to itself, and
// its score is far below that of a fresh row that is as far out. Copies of a row count once: with c pairs of copies for each
// row learnt, a pool that is not full has 1 + 2c of each. A full pool is as good as it will be.
func (l *Learner) knowsScores() bool {
	if l.pool.Len() == l.cfg.Neighbours {
		return true
	}
	copies := float64(l.counts.Copies) / float64(max(1, l.counts.Learnt))
	return float64(l.pool.Len())/(1+2*copies) >= float64(replayRowsPerColumn*len(l.metric.Active))
}

// reviseGate computes the gate again from time to time. The estimator must be loaded.
func (l *Learner) reviseGate() {
	if l.usesScores() && l.counts.Minibatches%gateMinibatches == 0 {
		l.setGate(l.inside.Sample(l.pool.Batch(), gateRows, int(l.gate.turn), l.cfg.Dim))
	}
}

// setGate computes the gate from the scores of rows that are in the pool, which it returns.
func (l *Learner) setGate(b pool.Batch) []float64 {
	l.gate.turn++
	l.estimator.project(b.X, l.moments.mean)
	scores := l.densities(l.estimator.update(l.exclusion(b)))
	l.sorted = l.sorted[:0]
	for _, v := range scores {
		if !math.IsNaN(v) {
			l.sorted = append(l.sorted, v)
		}
	}
	rows := float64(len(l.sorted))
	if g := l.gap.rows; g > 1 {
		rows = min(rows, float64(max(l.counts.Since, uint64(l.pool.Len())))/float64(g))
	}
	l.gate.limit = math.Inf(1)
	if len(l.sorted) > 0 {
		l.gate.limit = tailQuantile(l.sorted, gateShare, rows)
	}
	return scores
}

// refuse marks the rows of the last E-step that are beyond the gate, and counts them. As long as the pool's scores say little, such a
// row must be an outlier by C_G, too.
func (l *Learner) refuse(b pool.Batch, m *kernel.Moments) (rows int) {
	l.beyond = append(l.beyond[:0], make([]bool, b.Len())...)
	var squares []float64
	if !l.knowsScores() {
		squares = l.family.mahalanobis(l, b.X)
	}
	for i, v := range l.densities(m) {
		if v > l.gate.limit && (squares == nil || isOutlier(squares[i], len(l.metric.Active))) {
			l.beyond[i] = true
			rows++
		}
	}
	return rows
}

// closeGate takes the rows beyond the gate out of those that count. Their part of the moments is still to be taken out: see
// dropGated.
func (l *Learner) closeGate(m *kernel.Moments) {
	var refused []bool
	switch {
	case l.usesScores():
		refused = l.beyond
	case l.gatesByDistance(): // the E-step has left out those beyond its kernel gate; rows that are far may be within it
		refused = l.outside
	}
	for i, out := range refused {
		if out && m.Used[i] {
			l.closed = true
			if m.Used[i] = false; m.Atom[i] {
				m.Atoms--
			} else {
				m.Rows--
			}
		}
	}
}

// insideGate sets the gate by rows that are in the pool, and returns which of them pass it.
func (l *Learner) insideGate(b pool.Batch) []int {
	kept := make([]int, 0, b.Len())
	if !l.usesScores() {
		for i := range b.IDs {
			kept = append(kept, i)
		}
		return kept
	}
	l.estimator.load(l.pool, l.metric, l.work)
	for i, v := range l.setGate(b) {
		if !(v > l.gate.limit) {
			kept = append(kept, i)
		}
	}
	return kept
}

func (g *scoreGate) write(w *state.Writer) {
	w.F64(g.limit)
	w.U64(g.turn)
}

func (g *scoreGate) read(r *reader) { *g = scoreGate{limit: r.F64(), turn: r.U64()} }

const (
	// The tail is fitted to the scores between these quantiles, and what is above the second counts by number alone.
	tailFrom = 0.70
	tailTo   = 0.90
	// The shape is expected near tailShape, give or take tailSpread: few scores say little about it.
	tailShape  = 0
	tailSpread = 0.3
	tailFewest = 8 // scores between the quantiles without which there is no fit
	// So many standard errors are added to the logarithm of the scale.
	tailSurely = 2
	// Logarithms of a product that is larger are taken at once; each factor is below 1000.
	tailProduct = 1e100
)

// tailQuantile returns the value that a share p of scores is expected to exceed, from a generalised Pareto tail
//
//	P(s > u + t) = ¼ (1 + ξ t/β)^(−1/ξ)
//
// beyond the upper quartile u of the scores. An exponential tail alone (ξ = 0) would refuse what belongs to heavy tails.
// The fit is by maximum likelihood with the highest scores censored: outliers, up to 8 % of all, count as
// scores that are high but do not say how high the others may be, or else they would let themselves pass. A tail that
// belongs goes on as it began between the two quantiles. rows is how many independent rows the scores stand
// for; with few of them the tail is taken to be wider by two standard errors.
//
// It sorts scores and returns +Inf where they are too few.
func tailQuantile(scores []float64, p, rows float64) float64 {
	slices.Sort(scores)
	n := len(scores)
	from, to := int(tailFrom*float64(n)), int(tailTo*float64(n))
	u := scores[min(from, max(n-1, 0))]
	if to-from < tailFewest || !(scores[to] > u) || math.IsInf(scores[to], 0) {
		return math.Inf(1)
	}
	inner, top := scores[from+1:to], scores[to]-u
	best, shape, scale := math.Inf(-1), 0.0, 0.0
	for xi := 0.0; xi < 1.55; xi += 0.1 {
		beta := censoredScale(inner, u, top, n-to, xi)
		z := (xi - tailShape) / tailSpread
		if l := censoredLikelihood(inner, u, top, n-to, xi, beta) - 0.5*z*z; l > best {
			best, shape, scale = l, xi, beta
		}
	}
	fewer := max(1, float64(len(inner))*min(1, rows/float64(n)))
	scale *= math.Exp(tailSurely / math.Sqrt(fewer))
	return u + goesOn(scores[from:], u, scale*paretoQuantile((1-tailFrom)/p, shape))
}

// goesOn returns how far beyond u the tail goes on from t: to twice as far as long as some scores lie there, and no more
// than between half as far and as far. So does a heavy tail, from whose inner part alone the fit may expect too little.
// Between outliers and the rest there is a gap, or there are more of them than of what is before them.
func goesOn(scores []float64, u, t float64) float64 {
	within := func(a, b float64) int { // scores ascend
		from, _ := slices.BinarySearch(scores, u+a)
		to, _ := slices.BinarySearch(scores, u+b)
		return to - from
	}
	first := t
	for before := within(t/2, t); ; t *= 2 {
		next := within(t, 2*t)
		switch {
		case next > before:
			return t
		case next == 0 && t > first && u+t >= scores[len(scores)-1]:
			return 4 * t // to the last score, which is far from the last of the tail
		case next == 0:
			return t
		}
		before = next
	}
}

// paretoQuantile is the t at which (1 + ξ t)^(1/ξ) is times.
func paretoQuantile(times, xi float64) float64 {
	if math.Abs(xi) < 1e-6 {
		return math.Log(times)
	}
	return math.Expm1(xi*math.Log(times)) / xi
}

// censoredScale is the β that is most likely for a ξ, by golden section in log β.
func censoredScale(inner []float64, u, top float64, above int, xi float64) float64 {
	const golden = 0.6180339887498949
	lo, hi := math.Log(top)-6, math.Log(top)+6
	if xi < 0 {
		lo = math.Log(-xi*top) + 1e-3 // the tail ends at −β/ξ
		hi = max(hi, lo+1)
	}
	f := func(logBeta float64) float64 {
		return censoredLikelihood(inner, u, top, above, xi, math.Exp(logBeta))
	}
	a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
	fa, fb := f(a), f(b)
	for range 30 {
		if fa > fb {
			hi, b, fb = b, a, fa
			a = hi - golden*(hi-lo)
			fa = f(a)
		} else {
			lo, a, fa = a, b, fb
			b = lo + golden*(hi-lo)
			fb = f(b)
		}
	}
	return math.Exp(0.5 * (lo + hi))
}

// censoredLikelihood is the log likelihood of a generalised Pareto tail beyond u, of which above scores are only known
// to exceed u + top.
func censoredLikelihood(inner []float64, u, top float64, above int, xi, beta float64) float64 {
	if math.Abs(xi) < 1e-6 {
		sum := 0.0
		for _, s := range inner {
			sum += s - u
		}
		return -float64(len(inner))*math.Log(beta) - (sum+float64(above)*top)/beta
	}
	sum, product := 0.0, 1.0 // one logarithm for several scores
	for _, s := range inner {
		if product *= 1 + xi*(s-u)/beta; product > tailProduct {
			sum += math.Log(product)
			product = 1
		}
	}
	sum += math.Log(product)
	return -float64(len(inner))*math.Log(beta) - (1+1/xi)*sum - float64(above)/xi*math.Log1p(xi*top/beta)
}
