package online

import (
	"cmp"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/internal/state"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
	"github.com/lca-stream/lca-stream/lca/recent"
)

// A fault must not become the new normal while it lasts, and a change that someone made for good must. What scores the last rows of a series tells which
// series is unusual (recent.Learner.Held). Its rows are held: they are kept, the newest of them, and not learnt. A hold ends
//
//   - when the rows of the series are usual again: they are dropped, but the last few holds are kept for a while, because someone may still say that
//     this was normal;
//   - when someone says so (Accept);
//   - when it has lasted for Config.AcceptSpan or AcceptRows, unless Drift is off;
//   - when a former regime explains its rows.
//
// In the last three cases its rows are learnt. If they are of the only series, or of more than half of them at once, the stream has changed: they are learnt as any others
// are, two minibatches with each that comes until all are, and if they are far from what the metric knows, the learner restarts from them (restart.go), as
// soon as they are enough for what scores the last rows: there is nothing to wait for. If they are few among others, they join the pool and the moments, and
// nothing is replaced.

const (
	closedHolds = 4  // that are kept when they are over
	leastKept   = 50 // rows of a hold, if any are: the means of the first 20 are not learnt

	densityAccepts = 7 * 24 * 3_600_000 // ms, with PresetDensity
	stampless      = 100_000            // rows that stand for AcceptSpan where rows have no stamps
)

// hold is a stretch of rows of a series that are unusual.
type hold struct {
	series      uint64
	rows        pool.Batch // the newest
	count       uint64
	clock       recent.Clock
	first, last int64 // stamps, in ms; 0: none
}

// holds are those of a learner.
type holds struct {
	open    []*hold    // by series
	closed  []*hold    // the last ones, in order
	queue   pool.Batch // rows that were accepted, and wait to be learnt
	joins   pool.Batch // the same, of few series among others
	changed int        // acceptances that no Step has told
	total   uint64     // rows that were held
	dropped uint64     // of them, that were not learnt and never will be

	spare  *hold             // whose memory is used again
	leaves *recent.Evaluator // what was known of the last rows in the regime that is about to be left
}

// heldSeries lets rows of series that are usual through, and keeps the others.
type heldSeries struct {
	regimes
	normal bool // see Normal
}

// of returns where the hold of a series is, or would be, and that if it is open.
func (h *holds) of(series uint64) (at int, one *hold) {
	at, open := slices.BinarySearchFunc(h.open, series, func(one *hold, series uint64) int { return cmp.Compare(one.series, series) })
	if open {
		one = h.open[at]
	}
	return at, one
}

// add holds a row.
func (h *holds) add(series uint64, row pool.Batch, stamp int64) {
	at, one := h.of(series)
	if one == nil {
		if one = h.spare; one == nil {
			one = new(hold)
		}
		h.spare = nil
		*one = hold{series: series, first: stamp, rows: one.rows.Part(0, 0, 0)}
		h.open = slices.Insert(h.open, at, one)
	}
	one.rows.Append(row)
	one.count++
	h.total++
	if stamp != 0 {
		one.last = stamp
	}
	one.clock.Step(stamp)
}

// end ends a hold whose series is usual again.
func (h *holds) end(one *hold) {
	at, _ := h.of(one.series)
	h.open = slices.Delete(h.open, at, at+1)
	h.dropped += one.count
	if h.closed = append(h.closed, one); len(h.closed) > closedHolds {
		h.spare = h.closed[0]
		h.closed = slices.Delete(h.closed, 0, 1)
	}
}

// reopen makes holds of a series that are over part of the one that is open: they are of what someone has seen as one.
func (h *holds) reopen(one *hold, over []*hold) {
	var rows pool.Batch
	for _, o := range over {
		rows.Append(o.rows)
		one.count += uint64(o.rows.Len())
		h.dropped -= uint64(o.rows.Len())
		h.closed = slices.DeleteFunc(h.closed, func(c *hold) bool { return c == o })
	}
	rows.Append(one.rows)
	one.rows = rows
}

// bound drops the oldest rows of holds: at most so many of those that are open are kept together, and as many of those that are over. Where that is less than leastKept of
// each, as many holds have rows as there is room for, those whose series have the least hash: of a few rows of each nothing would be learnt.
func (h *holds) bound(most, d int) {
	cut := func(rows *pool.Batch, most int) { rows.Forget(max(0, rows.Len()-most), d) }
	room := min(len(h.open), max(1, most/leastKept))
	for i, one := range h.byHash(room) {
		if i < room {
			cut(&one.rows, most/room)
		} else {
			cut(&one.rows, 0)
		}
	}
	for _, one := range h.closed {
		cut(&one.rows, most/closedHolds)
	}
	cut(&h.queue, most)
	cut(&h.joins, most)
}

// byHash are the open holds, in the order of the hashes of their series if they are more than that.
func (h *holds) byHash(more int) []*hold {
	all := h.open
	if len(all) > more {
		all = slices.Clone(all)
		slices.SortFunc(all, func(a, b *hold) int { return cmp.Compare(pool.Mix(a.series), pool.Mix(b.series)) })
	}
	return all
}

// holdSeries takes the rows of series that are held out of a minibatch, and adds rows that were accepted.
func (l *heldSeries) holdSeries(b pool.Batch, kept []int, series []uint64, stamps []int64, s *Step) pool.Batch {
	h, held := &l.unusual, l.recent.held
	if l.metric == nil || l.cfg.Finite || l.normal || len(held) == 0 {
		return b
	}
	if h.queue.Len() == 0 && l.warm.Len() == 0 {
		h.leaves = nil // what was accepted is known to the metric
	}
	if len(h.open) > 0 || slices.Contains(held, true) {
		b = l.divide(b, kept, series, stamps)
		s.Held = l.apart.held
		l.rests.pass(l.apart.last, true, l.longest, l.cfg.Dim)
		l.endEvicted()
		l.regimeOfHeld(s)
		l.acceptOld()
		h.bound(l.cfg.Neighbours, l.cfg.Dim)
	}
	l.joinAccepted()
	if h.queue.Len() > 0 { // rows are learnt in their order
		d := l.cfg.Dim
		h.queue.Append(b)
		n := min(h.queue.Len(), 2*l.cfg.Minibatch)
		b = h.queue.Part(0, n, d).Clone()
		h.queue.Forget(n, d)
	}
	s.Accepted, h.changed = h.changed, 0
	return b
}

// endEvicted ends the holds of series that are not kept any more.
func (l *heldSeries) endEvicted() {
	h := &l.unusual
	for i := 0; i < len(h.open); {
		if one := h.open[i]; l.recent.series[one.series] == nil {
			h.end(one)
		} else {
			i++
		}
	}
}

// apart is memory for rows that are not held.
type apart struct {
	let  pool.Batch
	rows []int
	held int
	last pool.Batch // rows that are held now
}

// divide returns the rows of a minibatch that are not held. kept are the places of its rows among those that were handed in; nil: they are the same.
func (l *heldSeries) divide(b pool.Batch, kept []int, series []uint64, stamps []int64) pool.Batch {
	h, a, d := &l.unusual, &l.apart, l.cfg.Dim
	a.rows, a.held, a.last = a.rows[:0], 0, a.last.Part(0, 0, 0)
	for i := range b.IDs {
		at := i
		if kept != nil {
			at = kept[i]
		}
		if !l.recent.held[at] {
			if _, one := h.of(series[at]); one != nil {
				h.end(one)
			}
			a.rows = append(a.rows, i)
			continue
		}
		stamp, row := int64(0), b.Part(i, i+1, d)
		if stamps != nil {
			stamp = stamps[at]
		}
		h.add(series[at], row, stamp)
		a.last.Append(row)
		a.held++
	}
	return a.let.Pick(b, a.rows, d)
}

// joinAccepted lets accepted rows of few series enter the pool and the moments.
func (l *heldSeries) joinAccepted() {
	h := &l.unusual
	if h.joins.Len() == 0 {
		return
	}
	l.estimator.load(l.pool, l.metric, l.work)
	l.place(h.joins)
	l.moments.learn(h.joins.X, l.work)
	l.offerToPool(h.joins, l.kept)
	h.joins = pool.Batch{}
}

// acceptOld accepts what has lasted for as long as a change must.
func (l *heldSeries) acceptOld() {
	open := l.unusual.open
	if !slices.ContainsFunc(open, l.lasts) {
		return
	}
	var old []*hold
	whole := l.most(open)
	for _, one := range open {
		if (l.lasts(one) || whole && one.count >= warmupRows) && l.recent.learner.Unusual(one.rows.X) {
			old = append(old, one)
		}
	}
	if len(old) > 0 {
		l.accept(old, recent.Aged)
	}
}

// most reports whether holds are of more than half of what the stream is made of: of its series, or most rows of young ones. A minibatch alone may have the rows of one.
func (l *heldSeries) most(of []*hold) bool {
	all, held := uint64(0), uint64(0)
	for _, s := range l.recent.series {
		all += min(uint64(s.Rows), grownRows)
	}
	for _, one := range of {
		if s := l.recent.series[one.series]; s != nil {
			held += min(uint64(s.Rows), grownRows)
		}
	}
	return 2*held > all
}

// lasts reports whether what a hold is of has lasted for as long as a change must.
func (l *heldSeries) lasts(h *hold) bool {
	rows, span := l.cfg.accepts()
	switch {
	case span == 0:
		return h.count >= rows
	case h.clock.Largest == 0:
		return h.count >= stampless
	}
	return h.clock.Elapsed >= span && h.count >= warmupRows
}

// accepts is for how long a change must last: in rows, or in ms if that is not 0.
func (c Config) accepts() (rows uint64, span int64) {
	switch {
	case !c.Drift:
		return math.MaxUint64, 0
	case c.AcceptSpan > 0:
		return 0, c.AcceptSpan
	case c.AcceptRows != lca.Auto:
		return uint64(c.AcceptRows), 0
	case c.Preset == lca.PresetDensity:
		return 0, densityAccepts
	}
	return patientRows, 0
}

// accept lets the rows of holds be learnt. Those that are over are of what the stream is not now, and say nothing of an episode that is open.
func (l *heldSeries) accept(all []*hold, reason string) {
	h, to := &l.unusual, &l.unusual.joins
	whole := reason != "" && l.most(all)
	if whole {
		h.leaves, to = l.recent.learner.Evaluator(), &h.queue
	}
	l.recent.learner.Accept(l.stretches(all), reason, whole)
	for _, one := range all {
		l.released(one, to)
	}
}

func (l *heldSeries) stretches(all []*hold) (of []recent.Stretch) {
	for _, one := range all {
		s := recent.Stretch{Series: one.series, Until: one.last, Rows: one.rows.X}
		if _, open := l.unusual.of(one.series); open == one {
			s.State = l.recent.series[one.series]
		}
		of = append(of, s)
	}
	return of
}

// released queues the rows of a hold that is over.
func (l *heldSeries) released(one *hold, to *pool.Batch) {
	h := &l.unusual
	if i := slices.Index(h.closed, one); i >= 0 {
		h.dropped -= uint64(one.rows.Len())
		h.closed = slices.Delete(h.closed, i, i+1)
	} else {
		h.dropped += one.count - uint64(one.rows.Len()) // for which there was no room
		at, _ := h.of(one.series)
		h.open = slices.Delete(h.open, at, at+1)
	}
	to.Append(one.rows)
	h.changed++
}

// regimeOfHeld tries former regimes on the rows that are held now, if they are most of a minibatch: one that explains them is current again.
func (l *heldSeries) regimeOfHeld(s *Step) {
	h := &l.unusual
	if 2*s.Held <= s.Rows || len(l.former.regimes) == 0 || !l.most(h.open) {
		return
	}
	if _, known := l.explains(l.apart.last); known { // the current regime explains them: only their order in time is unusual
		return
	}
	h.leaves = l.recent.learner.Evaluator()
	if !l.regimeReturns(l.apart.last, true, math.Inf(1)) {
		h.leaves = nil
		return
	}
	s.Alarm = AlarmRegimeReturned
	e, held := l.regime.evaluator, slices.Clone(h.open)
	all := l.stretches(held)
	if e == nil {
		l.recent.learner.Accept(all, recent.Returned, true)
	}
	for i, one := range held {
		if e != nil {
			l.recent.learner.Return(all[i], e)
		}
		one.rows = pool.Batch{} // those of before were of another regime
		l.released(one, &h.queue)
	}
	h.queue.Append(l.apart.last)
}

// Accept says that what a series has shown between two times is normal, as far as it was held: that is learnt. It returns how many rows of it. from and to are in ms since the
// epoch; 0: not known, or it goes on.
func (l *Learner) Accept(series uint64, from, to int64) (rows int) {
	h := &l.unusual
	if l.recent.learner == nil || l.recent.over {
		return 0
	}
	var over []*hold
	for _, one := range h.closed {
		if one.series == series && (to == 0 || one.first <= to) && (from == 0 || one.last == 0 || one.last >= from) {
			over, rows = append(over, one), rows+one.rows.Len()
		}
	}
	_, one := h.of(series)
	switch {
	case one != nil && (to == 0 || one.first <= to):
		h.reopen(one, over)
		rows = one.rows.Len()
		l.accept([]*hold{one}, recent.Accepted)
	case len(over) > 0:
		l.accept(over, "")
	}
	if to == 0 && one == nil { // nothing is held now: but who reads evaluators is to know
		l.recent.learner.Accept([]recent.Stretch{{Series: series, Until: from}}, recent.Accepted, false)
		h.changed++
	}
	return rows
}

// HeldSeries returns how many series are unusual now, so that their rows are not learnt, and how many rows were held since the learner was made.
func (l *Learner) HeldSeries() (series int, rows uint64) { return len(l.unusual.open), l.unusual.total }

// NotLearnt returns how many rows were held until they were usual again, and how many are held or wait to be learnt.
func (l *Learner) NotLearnt() (dropped, waiting uint64) {
	h := &l.unusual
	waiting = uint64(h.queue.Len() + h.joins.Len())
	for _, one := range h.open {
		waiting += one.count
	}
	return h.dropped, waiting
}

func (h *holds) fields(f *state.Fields, dim int) {
	f.U64(&h.total, &h.dropped)
	state.Numbers(f, &h.changed)
	h.queue.Fields(f, dim)
	h.joins.Fields(f, dim)
	evaluatorField(f, &h.leaves, dim)
	for _, all := range []*[]*hold{&h.open, &h.closed} {
		state.List(f, all, holdLeast, func(one **hold) {
			if f.Reads() {
				*one = new(hold)
			}
			(*one).fields(f, dim)
		})
	}
	ascending := slices.IsSortedFunc(h.open, func(a, b *hold) int { return cmp.Or(cmp.Compare(a.series, b.series), -1) })
	f.Check(ascending, "series that are held twice")
}

// evaluatorField passes an evaluator, where there is one.
func evaluatorField(f *state.Fields, e **recent.Evaluator, dim int) {
	known := *e != nil
	switch f.Flag(&known); {
	case !known || f.Reads() && f.R.Err != nil:
	case f.Reads():
		*e, f.R.B, f.R.Err = recent.ReadEvaluator(f.R.B, dim)
	default:
		f.W.B, _ = (*e).AppendBinary(f.W.B)
	}
}

const holdLeast = 8 * 12 // bytes

func (h *hold) fields(f *state.Fields, dim int) {
	c := &h.clock
	f.U64(&h.series, &h.count)
	state.Numbers(f, &h.first, &h.last, &c.Largest, &c.Ahead)
	state.Numbers(f, &c.Behind)
	state.Numbers(f, &c.Steps, &c.Elapsed)
	h.rows.Fields(f, dim)
}
