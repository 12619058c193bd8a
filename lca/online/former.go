package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/online/internal/timegap"
	"github.com/lca-stream/lca-stream/lca/online/internal/watch"
	"github.com/lca-stream/lca-stream/lca/recent"
)

const (
	formerMost   = 4         // former metrics that are kept
	formerBytes  = 128 << 20 // of all of them in a state; with very many columns fewer are kept
	formerSurely = 3         // standard deviations of a minibatch's NLL
	formerApart  = 10        // minibatches
	formerLately = 1         // nats per row
)

// A stream may go back to what it was: a machine to its other product, a plant from its night to its day. The metric that
// was learnt then is right at once, where a restart needs a thousand rows. So at an alarm the metric that is left joins
// a ring of former ones, with at most sampleRows of its neighbours, and with a C_L that is wider because they are fewer
// (prop1.WidthFactor). The oldest leaves the ring.
//
// Each anomalous minibatch is tried with them. A former metric explains it if its NLL is within formerSurely standard
// deviations of those of the minibatches that were learnt while it was current, if no more rows are far than were then,
// and if no column is quieter. The NLL counts in both directions, because rows that are much more likely than ever are
// not of that regime either. Of the metrics that explain the rows, the one with the lowest NLL becomes current, with its neighbours,
// moments, gate and coordinates, and the minibatch is learnt.
//
// A stream of two kinds of minibatches in turn would go back and forth all the time. So for formerApart minibatches
// after a return, they are only tried when a restart is due.
//
// A regime that began lately does not know yet what is usual in it, so that no minibatch is anomalous. A fault that ends just after the learner has
// believed it would be followed by normal rows that are learnt with it. So until then each minibatch is tried, and a former metric that explains it must
// be better than the current one by formerLately as well.

// formerRing returns how many former metrics are kept, and about how many bytes a state has of each.
func formerRing(neighbours, columns int) (metrics, bytes int) {
	const matrices, row = 4, 20 // C_G, C_L, W, and at most another for B_L; identity and place of a neighbour
	bytes = 8*matrices*columns*columns + recent.EvaluatorBytes(columns) + min(neighbours, sampleRows)*(4*columns+row)
	return min(formerMost, formerBytes/bytes), bytes
}

// FormerBytes returns how many bytes former metrics add to a state at most, if the rows are float32.
func FormerBytes(neighbours, columns int) int {
	metrics, bytes := formerRing(neighbours, columns)
	return metrics * bytes
}

// regimes is the bank: the regimes before the current one. Which explains rows best, the current, a former, or the one now forming (warmup.warm)?
type regimes struct {
	changeWatch
	former  formers
	recent  lastRows // what is known of them goes with a regime
	unusual holds
}

// formers are the former regimes, the last one to be left at the end.
type formers struct {
	regimes []regime
	turned  uint64 // counts.Minibatches at the last return
}

// swap exchanges the current regime with a former one.
func (l *regimes) swap(f *regime) {
	was := l.regime
	l.setRegime(*f)
	*f = was
}

// patience returns how many rows in quarantine make a restart. Of a change that is accepted, as few as a model can be of.
func (l *regimes) patience() int {
	want := l.cfg.driftRows()
	switch {
	case l.unusual.leaves != nil:
		want = min(want, int(recent.LeastRows(l.cfg.Dim)))
	case l.lockout.Tripped:
		want = l.cfg.warmupRows()
	}
	if l.cfg.DriftRows == lca.Auto && l.cfg.WarmupRows == lca.Auto {
		want = timegap.Stretched(want, l.gap, l.cfg.Neighbours)
	}
	return want
}

// beganLately reports whether the current regime is so young that nothing is anomalous in it, and there are others.
func (l *regimes) beganLately() bool {
	return len(l.former.regimes) > 0 && l.drift.far.Seen < watch.Settle
}

// regimeReturns tries the former metrics on a minibatch, and makes the best one current if it explains the rows and has an NLL below the one
// given. restart says that a restart is due otherwise.
func (l *regimes) regimeReturns(b pool.Batch, restart bool, below float64) bool {
	soon := l.former.turned > 0 && l.counts.Minibatches < l.former.turned+formerApart
	if l.cfg.Finite || soon && !restart {
		return false
	}
	best := l.bestFormer(below, func() (float64, bool) { return l.explains(b) })
	if best < 0 {
		return false
	}
	back := l.former.regimes[best]
	l.former.regimes = slices.Delete(l.former.regimes, best, best+1)
	l.keepFormer()
	l.setRegime(back)
	l.former.turned = l.counts.Minibatches
	l.leave()
	l.estimator.load(l.pool, l.metric, l.work)
	return true
}

// belowCurrent is the NLL that a former regime must be below to return.
func belowCurrent(anomalous bool, s *Step) float64 {
	if anomalous || s.Opened {
		return math.Inf(1)
	}
	return s.NLL - formerLately
}

// bestFormer returns which former regime fits best: the one with the lowest NLL, which must be less than the one given. fits is asked with each of them as
// the current one. -1: none fits.
func (l *regimes) bestFormer(below float64, fits func() (nll float64, ok bool)) int {
	best, least := -1, below
	for i := range l.former.regimes {
		f := &l.former.regimes[i]
		l.swap(f)
		if nll, ok := fits(); ok && nll < least {
			best, least = i, nll
		}
		l.swap(f)
	}
	return best
}

// explains reports whether rows are as those were that the current regime learnt, and their NLL.
func (l *regimes) explains(all pool.Batch) (nll float64, ok bool) {
	var s Step
	l.estimator.load(l.pool, l.metric, l.work)
	j := l.judge(all, &s)
	quiet := l.drift.quiet.measure(&l.changeWatch, j.inside, j.moments)
	known := j.moments.Rows+j.moments.Atoms > 0 && !l.manyFar(j.far, all.Len())
	return s.NLL, known && !quiet && math.Abs(l.drift.nll.Z(s.NLL)) <= formerSurely
}

// leave forgets what was collected under the regime that is left.
func (l *regimes) leave() {
	l.counts.Gated += uint64(l.warm.Len()) // they are never learnt
	l.choice.drop()
	l.warm, l.held, l.lockout = pool.Batch{}, pool.Batch{}, watch.Refusals{}
}

// keepFormer adds the current regime to the former ones, if that can be.
func (l *regimes) keepFormer() {
	kept, _ := formerRing(l.cfg.Neighbours, l.cfg.Dim)
	if l.cfg.Finite || kept == 0 {
		return
	}
	if f, ok := l.thinned(); ok {
		all := append(l.former.regimes, f)
		l.former.regimes = slices.Delete(all, 0, max(0, len(all)-kept))
	}
}

// thinned returns the current regime with fewer neighbours. They share nothing that changes: the current one may go on.
func (l *regimes) thinned() (regime, bool) {
	was, d := l.regime, l.cfg.Dim
	evaluator, renewed := l.unusual.leaves, l.unusual.leaves != nil
	if l.unusual.leaves = nil; !renewed {
		evaluator = l.recent.evaluator()
	}
	kept := new(pool.Batch).Sample(was.pool.Batch(), sampleRows, 0, d)
	next := regime{
		since: was.since, settings: was.settings, chosen: was.chosen,
		pool: pool.New(l.cfg.Neighbours, d), moments: was.moments.clone(), cl: make([]float64, d*d),
		drift: was.drift.clone(), aligned: was.aligned.clone(), gap: was.gap,
		longest: slices.Clone(was.longest), evaluator: evaluator, renewed: renewed,
	}
	for i, id := range kept.IDs {
		next.pool.Put(i, id, kept.Places[i], kept.X[i*d:(i+1)*d])
	}
	next.pool.Offered = was.pool.Offered
	was.metric.current(next.cl, was.cl, d, l.work)
	for k := range next.cl {
		next.cl[k] *= prop1.WidthFactor(was.pool.Len(), next.pool.Len(), was.metric.parzen)
	}
	some := new(pool.Batch).Sample(next.pool.Batch(), gateRows, 0, d)
	before := slices.Clone(l.score(some))
	l.regime = next
	err := l.findFirstSplit(was.metric.parzen)
	if err == nil {
		l.drift.nll.MoveTo(before, l.score(some), float64(l.cfg.Minibatch)/float64(min(max(l.gap, 1), uint64(l.cfg.Minibatch))))
		l.setGate(some)
	}
	next, l.regime = l.regime, was
	return next, err == nil
}

// formerFields passes the former regimes. Their metrics follow from the rest, and are found again when they are read, each in the place of the current regime, which
// must have been read.
func (l *regimes) formerFields(f *state.Fields) {
	current, d := l.regime, l.cfg.Dim
	f.U64(&l.former.turned)
	if f.Version == state.SecondEdition { // whether the last one was left for the current one, when that began, and whether the last one was brief
		var left, brief bool
		var began uint64
		f.Flag(&left)
		f.U64(&began)
		f.Flag(&brief)
	}
	state.List(f, &l.former.regimes, 8*d*d, func(r *regime) {
		if !f.Reads() {
			r.fields(f, d, &r.metric.parzen)
			return
		}
		parzen := 0
		*r = emptyRegime(l.cfg)
		r.fields(f, d, &parzen)
		f.Check(r.pool.Len() > 0 && parzen >= 0 && parzen <= d, "a former metric with %d neighbours and d_P = %d", r.pool.Len(), parzen)
		if f.R.Err != nil {
			return
		}
		l.regime = *r
		l.restore(r.settings)
		f.Check(l.findFirstSplit(parzen) == nil, "a former C_L that is not positive definite")
		*r = l.regime
	})
	if f.Reads() {
		l.setRegime(current)
	}
}

func (r *regime) fields(f *state.Fields, d int, parzen *int) {
	f.U64(&r.since)
	r.settings.fields(f)
	choiceFields(f, &r.chosen)
	r.pool.Fields(f)
	r.moments.fields(f)
	f.Sized("C_L", &r.cl, d*d)
	state.Numbers(f, parzen)
	r.drift.fields(f, d)
	r.aligned.fields(f, d)
	gapFields(f, &r.gap)
	r.gate.fields(f)
	if f.Version > state.SecondEdition {
		evaluatorField(f, &r.evaluator, d)
		f.Flag(&r.renewed)
		f.Check(r.evaluator != nil || !r.renewed, "what scored the last rows of a former regime is missing")
		restsField(f, &r.longest, d)
	}
}
