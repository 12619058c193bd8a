package online

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/recent"
)

const (
	formerMost   = 4         // former metrics that are kept
	formerRows   = 1000      // neighbours of each
	formerBytes  = 128 << 20 // of all of them in a state; with very many columns fewer are kept
	formerSurely = 3         // standard deviations of a minibatch's NLL
	formerApart  = 10        // minibatches
	formerLately = 1         // nats per row
)

// A stream may go back to what it was: a machine to its other product, a plant from its night to its day. The metric that
// was learnt then is right at once, where a restart needs a thousand rows. So at an alarm the metric that is left joins
// a ring of former ones, with at most formerRows of its neighbours, and with a C_L that is wider because they are fewer
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
	bytes = 8*matrices*columns*columns + recent.EvaluatorBytes(columns) + min(neighbours, formerRows)*(4*columns+row)
	return min(formerMost, formerBytes/bytes), bytes
}

// FormerBytes returns how many bytes former metrics add to a state at most, if the rows are float32.
func FormerBytes(neighbours, columns int) int {
	metrics, bytes := formerRing(neighbours, columns)
	return metrics * bytes
}

// regime is what is learnt of a stream's rows for as long as they stay as they are.
type regime struct {
	settings recipe     // also in Learner.cfg while the regime is current
	chosen   lca.Choice // the last one; without candidates before the first
	pool     *pool
	moments  *runningMoments
	cl       []float64    // C_L without ν, dim×dim, both triangles
	metric   *metricState // nil while warming up
	split    bool         // the metric is the result of an M-step, and not the initial one from C_G
	drift    drift
	aligned  reference
	gap      timeGap
	gate     scoreGate

	evaluator *recent.Evaluator // of the last rows, of a former regime; nil: it is not known
}

// setRegime makes a regime current, with its settings.
func (l *Learner) setRegime(r regime) {
	l.regime = r
	l.use(r.settings)
}

// former is a regime that is not the current one.
type former struct {
	regime
	since uint64 // counts.Since when it was left
}

// formers are the former regimes, the last one to be left at the end.
type formers struct {
	regimes []former
	turned  uint64 // counts.Minibatches at the last return
	began   uint64 // counts.Minibatches when the current one began; 0: the first
	brief   bool   // the last one to be left was brief
	left    bool   // the current regime began when the last of them was left, from later rows alone
}

// swap exchanges the current regime with a former one.
func (l *Learner) swap(f *former) {
	was := l.regime
	l.setRegime(f.regime)
	f.regime = was
	l.counts.Since, f.since = f.since, l.counts.Since
}

// beganLately reports whether the current regime is so young that nothing is anomalous in it, and there are others.
func (l *Learner) beganLately() bool {
	return len(l.former.regimes) > 0 && l.cfg.Drift && !l.cfg.Finite && l.drift.far.seen < driftSettle
}

// regimeReturns tries the former metrics on a minibatch, and makes the best one current if it explains the rows and has an NLL below the one
// given. restart says that a restart is due otherwise.
func (l *Learner) regimeReturns(b batch, restart bool, below float64) bool {
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
	l.remember()
	l.setRegime(back.regime)
	l.counts.Since = back.since
	l.former.turned, l.former.left = l.counts.Minibatches, false
	l.leave()
	l.estimator.load(l.pool, l.metric, l.work)
	return true
}

// bestFormer returns which former regime fits best: the one with the lowest NLL, which must be less than the one given. fits is asked with each of them as
// the current one. -1: none fits.
func (l *Learner) bestFormer(below float64, fits func() (nll float64, ok bool)) int {
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

// explains reports whether a minibatch is as those were that the current metric learnt, and its NLL.
func (l *Learner) explains(all batch) (nll float64, ok bool) {
	var s Step
	l.estimator.load(l.pool, l.metric, l.work)
	b, m, far := l.judge(all, &s)
	quiet := l.drift.quiet.measure(l, b, m)
	ok = !l.manyFar(far, all.len()) && !quiet && m.Rows+m.Atoms > 0
	return s.NLL, ok && math.Abs(l.drift.nll.z(s.NLL)) <= formerSurely
}

// leave forgets what was collected under the regime that is left.
func (l *Learner) leave() {
	l.counts.Gated += uint64(l.warm.len()) // they are never learnt
	l.choice.drop()
	l.warm, l.held, l.lockout, l.recurring, l.tailNeed = batch{}, batch{}, lockout{}, recurring{}, 0
}

// remember adds the current regime to the former ones, if that can be.
func (l *Learner) remember() (added bool) {
	kept, _ := formerRing(l.cfg.Neighbours, l.cfg.Dim)
	if l.cfg.Finite || kept == 0 {
		return false
	}
	f, ok := l.thinned()
	if ok {
		all := append(l.former.regimes, f)
		l.former.regimes = slices.Delete(all, 0, max(0, len(all)-kept))
	}
	return ok
}

// thinned returns the current regime with fewer neighbours.
func (l *Learner) thinned() (former, bool) {
	was, d := l.regime, l.cfg.Dim
	evaluator := l.unusual.leaves
	if l.unusual.leaves = nil; evaluator == nil {
		evaluator = l.recent.evaluator()
	}
	kept := new(batch).sample(was.pool.batch(), formerRows, was.pool.next, d)
	next := regime{
		settings: was.settings, chosen: was.chosen,
		pool: newPool(l.cfg.Pool, l.cfg.Neighbours, d, l.cfg.Seed), moments: was.moments, cl: make([]float64, d*d),
		drift: was.drift, aligned: was.aligned.clone(), gap: was.gap.interrupted(),
		evaluator: evaluator,
	}
	for i, id := range kept.ids {
		next.pool.put(i, id, kept.places[i], kept.x[i*d:(i+1)*d])
	}
	next.pool.offered = was.pool.offered
	was.metric.current(next.cl, was.cl, d, l.work)
	for k := range next.cl {
		next.cl[k] *= prop1.WidthFactor(was.pool.len(), next.pool.len(), was.metric.parzen)
	}
	some := new(batch).sample(next.pool.batch(), gateRows, 0, d)
	before := slices.Clone(l.score(some))
	l.regime = next
	err := l.findFirstSplit(was.metric.parzen)
	if err == nil {
		l.drift.nll.moveTo(before, l.score(some), float64(l.cfg.Minibatch)/float64(min(max(l.gap.rows, 1), uint64(l.cfg.Minibatch))))
		l.setGate(some)
	}
	next, l.regime = l.regime, was
	return former{next, l.counts.Since}, err == nil
}

// findFirstSplit sets the metric that follows from the rest of a regime, and from the d_P that it had.
func (l *Learner) findFirstSplit(parzen int) error {
	l.metric, l.split = nil, true
	enter(l.cl, l.cfg.Dim, varying(l.cl, l.cfg.Dim), l.moments.columnScale(l.cfg.NuUnit).Active, l.moments.cov)
	return l.findSplit(parzen)
}

// moveTo makes the level that of other scores of the same rows. One that has not settled becomes theirs, with the
// variance of minibatches of that number of independent rows.
func (d *level) moveTo(was, now []float64, rows float64) {
	var n, mean, squares, difference float64
	for i, v := range now {
		if u := v - was[i]; u-u == 0 {
			n++
			difference += float64((u - difference) / n)
			delta := v - mean
			mean += float64(delta / n)
			squares += float64(delta * (v - mean))
		}
	}
	if d.seen >= driftSettle {
		d.mean += difference
	} else if n > 0 {
		*d = level{seen: driftSettle, mean: mean, variance: squares / n / rows}
	}
}

// write appends the former regimes. Their metrics follow from the rest, and are found again by read.
func (f *formers) write(w *state.Writer) {
	w.U64(f.turned)
	w.Flag(f.left)
	w.U64(f.began)
	w.Flag(f.brief)
	w.Count(len(f.regimes))
	for i := range f.regimes {
		r := &f.regimes[i]
		w.U64(r.since)
		r.settings.write(w)
		writeChoice(w, r.chosen)
		r.pool.write(w)
		r.moments.write(w)
		w.Floats(r.cl)
		w.Count(r.metric.parzen)
		r.drift.write(w)
		r.aligned.write(w)
		r.gap.write(w)
		r.gate.write(w)
		writeEvaluator(w, r.evaluator)
	}
}

// readFormers reads the former regimes, each in the place of the current one, which must have been read.
func (l *Learner) readFormers(r *reader) {
	current, d := former{l.regime, l.counts.Since}, l.cfg.Dim
	l.former.turned, l.former.left = r.U64(), r.Flag()
	l.former.began, l.former.brief = r.U64(), r.Flag()
	for n := r.Count(8 * d * d); r.Err == nil && len(l.former.regimes) < n; {
		l.counts.Since = r.U64()
		l.regime = emptyRegime(l.cfg)
		l.restore(readRecipe(r))
		l.chosen = readChoice(r)
		l.pool.read(r)
		l.moments.read(r)
		l.cl = r.Sized("C_L", d*d)
		parzen := int(r.U64())
		l.drift.read(r, d)
		l.aligned.read(r, d)
		l.gap.read(r, d)
		l.gate.read(r)
		if r.version > secondVersion {
			l.evaluator = readEvaluator(r, d)
		}
		switch {
		case r.Err != nil:
		case l.pool.len() == 0 || parzen < 0 || parzen > d:
			r.Err = fmt.Errorf("a former metric with %d neighbours and d_P = %d", l.pool.len(), parzen)
		case l.findFirstSplit(parzen) != nil:
			r.Err = errors.New("a former C_L that is not positive definite")
		}
		l.former.regimes = append(l.former.regimes, former{l.regime, l.counts.Since})
	}
	l.setRegime(current.regime)
	l.counts.Since = current.since
}

const (
	transitionRecent = 4    // one in this many rows of a restart is recent
	transitionShare  = 0.02 // share of the recent rows that may be like those of the regime that was left
	transitionSurely = 3    // standard errors
	transitionRows   = 1000 // rows in quarantine until which a transition to a former regime may last
)

// A change may take its time: at first a few rows are of the next regime, and at last all. The rows in quarantine are then of
// both, and a restart would know both. The regime that was left would be known when it returns, so that there would be no alarm,
// and the metric would be that of neither. So when the change is over, the rows of the former regime are left out: those that
// its metric explains better than the current one, and by more than all but a few of the recent rows. There must be surely
// more of them than of recent ones. This is tried at the restart and each time that the number of rows learnt has
// doubled since.
//
// In the same way a former regime returns row by row. A restart that is due waits for it, for a while, if it is on its
// way: if most of the rows that the current regime refuses are known to the former one.

// leaveOutFormer leaves rows of the regime that was left out of the pool, if they do not come any more. recent are the last rows.
func (l *Learner) leaveOutFormer(recent batch, s *Step) error {
	if !l.former.left || !l.split || recent.len() == 0 {
		return nil
	}
	all := new(batch)
	all.append(l.pool.batch())
	was := slices.Clone(l.score(recent))
	better := l.betterUnderFormer(*all)
	few := l.betterUnderFormer(recent)
	slices.Sort(few)
	margin := max(0, few[int((1-transitionShare)*float64(len(few)-1))])
	var kept []int
	for i, v := range better {
		if !(v > margin) {
			kept = append(kept, i)
		}
	}
	share := 1 - float64(len(kept))/float64(len(better))
	standardError := math.Sqrt(share * (1 - share) / l.independent(len(few)))
	if !(share-transitionShare > transitionSurely*standardError) || !l.worthReplaying(len(kept)) {
		l.estimator.load(l.pool, l.metric, l.work)
		return nil
	}
	if _, err := l.fitFirst(new(batch).pick(*all, kept, l.cfg.Dim), s); err != nil {
		return err
	}
	l.split = true
	if err := l.chooseBeginning(len(kept), s); err != nil {
		return err
	}
	if l.drift.nll.seen >= driftSettle { // a young level stays young
		l.drift.nll.moveTo(was, l.score(recent), float64(l.cfg.Minibatch))
	}
	l.drift.quiet = quietColumns{} // its figures are about the former mean
	l.estimator.load(l.pool, l.metric, l.work)
	l.setGate(l.pool.batch())
	l.renewEstimator()
	return nil
}

// transitionDue says whether the rows learnt have just passed the warm-up's number times a power of two.
func (l *Learner) transitionDue(before uint64) bool {
	return doubled(before, l.counts.Since, uint64(l.cfg.warmupRows()))
}

// betterUnderFormer returns by how many nats the last former regime explains each row better than the current one; NaN for one that
// either has no neighbour for.
func (l *Learner) betterUnderFormer(b batch) []float64 {
	better := slices.Clone(l.score(b))
	f := &l.former.regimes[len(l.former.regimes)-1]
	l.swap(f)
	for i, v := range l.score(b) {
		better[i] -= v
	}
	l.swap(f)
	return better
}

// formerOnItsWay reports whether a former regime knows most of the rows that the current one refuses.
func (l *Learner) formerOnItsWay(b batch) (on bool) {
	if !l.usesScores() || l.lockout.tripped || l.warm.len() >= transitionRows {
		return false
	}
	var refused []int
	for i, v := range l.score(b) {
		if v > l.gate.limit {
			refused = append(refused, i)
		}
	}
	b = new(batch).pick(b, refused, l.cfg.Dim)
	for i := range l.former.regimes {
		f := &l.former.regimes[i]
		l.swap(f)
		known := 0
		if l.usesScores() && b.len() > 0 {
			for _, v := range l.score(b) {
				if v <= l.gate.limit {
					known++
				}
			}
		}
		l.swap(f)
		on = on || 2*known > b.len()
	}
	return on
}

// A regime after which the stream changes again before as many rows have come as the pool holds is brief. A stream that changes
// as often is hardly ever as it was when it was learnt: its rows may be sorted, and its clusters come one after the other.
// Each restart would then know the last cluster alone. So at the end of a brief regime there are two candidates, one from the
// rows in quarantine alone, and one from these and as many rows of the brief regime. Both together are right for rows of which
// half are of either, and for the new rows alone they cost log 2 nats. If they cost no more than that, the changes are those
// of one law, and they are learnt together; where another law would have another kernel, they cost more.
//
// The first regime of a stream is not brief, however short: a first change may be the only one.

// briefRows returns rows of the current regime to be learnt with that number of new ones, none unless it is brief. The alarm at its
// end has been counted.
func (l *Learner) briefRows(rows int) (b batch) {
	if l.lockout.tripped || l.counts.Alarms < 2 || l.counts.Since >= uint64(l.cfg.Neighbours) {
		return batch{}
	}
	if most := min(rows, l.cfg.Neighbours-rows); most > 0 {
		b.append(new(batch).sample(l.pool.batch(), most, 0, l.cfg.Dim))
	}
	return b
}

// learnTogether begins with the rows of a brief regime and new ones, if they explain the new ones as well as can be. The
// current regime is that of the new ones alone, and stays otherwise.
func (l *Learner) learnTogether(begin func(), brief, first batch, s Step) (Step, bool) {
	alone, scores := l.regime, slices.Clone(l.score(first))
	both := brief
	both.append(first)
	begin()
	inside, used, err := l.fitInside(both, &s)
	if err == nil && used > 0 && costsAtMost(l.score(first), scores, math.Log1p(float64(brief.len())/float64(first.len()))) {
		s.Gated += both.len() - inside.len()
		s.Learnt = max(0, used-brief.len()) // the others have been counted before
		return s, true
	}
	l.setRegime(alone)
	return Step{}, false
}

// costsAtMost reports whether a is not above b by more than that and two standard errors of their difference, row by row.
func costsAtMost(a, b []float64, nats float64) bool {
	mean, squares, n := differences(a, b)
	return mean <= nats+choiceSurely*math.Sqrt(squares)/n
}

// A machine that runs and rests in turn, some hundred rows each, is in one regime of two. While each has a metric of its own, the rows at
// each switch are refused until the other one is back: nearly half of all, where a regime lasts for as long as a change must. So when a regime
// returns, and both the one that is left and the one before were brief, the two are learnt together: the pool begins again with rows of
// both, each with its share of the rows that were learnt. That stays if it knows both.
//
// One brief regime is not enough: a fault may have been believed, and what came before it returns. The first regime of a stream is not
// brief, however short. Regimes that keep returning are brief if the pool still holds rows of one after it has learnt the other. Longer ones keep a
// metric each: there is an alarm at each return, and few rows are refused.

const (
	alternatesWithin = 0.75 // a regime is brief if it lasted for this many times the pool's rows, or less,
	alternatesLong   = 1.5  // or this many, where there were this many returns before for each time that the learner started again
	alternatesOften  = 2
	alternatesLeast  = 0.1 // least share of either
)

// turn notes that the current regime is left, and reports whether it and the one before were brief.
func (l *Learner) turn() (alternates bool) {
	f := &l.former
	rows := float64(l.counts.Minibatches-f.began) * float64(l.cfg.Minibatch)
	brief := f.began > 0 && rows <= alternatesWithin*float64(l.cfg.Neighbours)
	if f.began > 0 && l.counts.Returns >= alternatesOften*l.counts.Alarms {
		brief = rows <= alternatesLong*float64(l.cfg.Neighbours)
	}
	alternates = f.brief && brief
	f.began, f.brief = l.counts.Minibatches, brief
	return alternates
}

// learnAlternating learns the current regime, which has returned, and the one that was left for it together.
func (l *Learner) learnAlternating(s Step) (Step, error) {
	last := len(l.former.regimes) - 1
	if last < 0 { // it could not be kept
		return s, nil
	}
	other := &l.former.regimes[last]
	share := float64(other.since) / float64(other.since+l.counts.Since)
	share = min(max(share, alternatesLeast), 1-alternatesLeast)
	rows := min(float64(l.cfg.Neighbours), float64(l.pool.len())/(1-share), float64(other.pool.len())/share)
	mine := new(batch).sample(l.pool.batch(), int((1-share)*rows), 0, l.cfg.Dim)
	its := new(batch).sample(other.pool.batch(), int(share*rows), 0, l.cfg.Dim)
	s, done, err := l.learnBoth(mine, its, share, s, func() bool { return l.knows(mine) && l.knows(its) })
	if done {
		l.counts.Returns-- // the alarm is another one
		l.former.regimes = l.former.regimes[:last]
	}
	return s, err
}
