package online

import (
	"fmt"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
	"github.com/lca-stream/lca-stream/lca/internal/prop1"
	"github.com/lca-stream/lca-stream/lca/internal/state"
)

const (
	recurringEpisodes = 3   // at least as many times must rows have been released
	recurringApart    = 4   // a time is over when one in this many of the rows that a change must last for have come that were normal
	recurringShare    = 0.1 // of the stream
	recurringWithin   = 2   // mean square of a direction in which rows are like those of other times
	recurringRounding = 1e-12
)

// recurring keeps the rows that are released from quarantine: those of a change that did not last. One such change is a fault. But a
// machine may have a second way to run, each time for less than a change must last, and its rows would be refused as often as they
// come. So released rows are kept, up to the number that a restart takes. Once there are that many, from at least three episodes, and
// at least one row in ten was of that kind, the rows of even episodes are compared with those of odd ones.
// If they are alike, they are learnt with the current regime: the pool begins again with rows of both, each with its share of the
// stream.
//
// Rows of one kind come in stretches, so that the NLL of a minibatch is that of its kind. The two kinds differ by a part of the
// variance of the level that no number of minibatches of one kind makes less (level.floor).
type recurring struct {
	rows     batch
	episodes []uint64 // which time each of the rows was of
	episode  uint64   // times so far that minibatches were anomalous
	normal   uint64   // rows learnt since the last of these
	released uint64   // rows that were released since
	since    uint64   // counts.Rows when the first of the rows was released
}

// add keeps rows that are released, of each time no more than are needed of three, and forgets the oldest beyond that number.
func (k *recurring) add(b batch, most int, now uint64, d int) {
	if k.rows.len() == 0 {
		k.since, k.released = now, 0
	}
	k.released += uint64(b.len())
	room := most/recurringEpisodes + 1
	for i := len(k.episodes); i > 0 && k.episodes[i-1] == k.episode; i-- {
		room--
	}
	n := min(b.len(), max(room, 0))
	k.rows.append(batch{b.x[:n*d], b.ids[:n], b.places[:n]})
	for range n {
		k.episodes = append(k.episodes, k.episode)
	}
	k.forget(max(0, k.rows.len()-most), now, d)
}

// forget drops the oldest rows, and as large a part of the time and of the rows released in it.
func (k *recurring) forget(rows int, now uint64, d int) {
	if rows == 0 {
		return
	}
	part := float64(rows) / float64(k.rows.len())
	k.since += uint64(float64(now-k.since) * part)
	k.released -= uint64(float64(k.released) * part)
	k.rows.forget(rows, d)
	k.episodes = append([]uint64(nil), k.episodes[rows:]...)
}

// watchesRecurring says whether released rows are kept: with Drift on, and where a change must last longer than a warm-up. A learner that restarts
// as soon as it can has learnt what lasts for a warm-up, and knows it when it returns.
func (l *Learner) watchesRecurring() bool {
	return l.cfg.Drift && !l.cfg.Finite && l.cfg.driftRows() > l.cfg.warmupRows()
}

// learnRecurring learns released rows with the current regime, if they are of one kind that recurs.
func (l *Learner) learnRecurring(s Step) (Step, error) {
	k, most := &l.recurring, l.patience()
	if k.rows.len() < most || k.episodes[len(k.episodes)-1] < k.episodes[0]+recurringEpisodes-1 {
		return s, nil
	}
	share := min(0.5, k.share(l.counts.Rows))
	if share < recurringShare || !l.alike() {
		k.forget(k.rows.len()/2, l.counts.Rows, l.cfg.Dim)
		return s, nil
	}
	n := min(l.pool.len(), l.cfg.Neighbours)
	few := min(k.rows.len(), int(share*float64(n)))
	kind := new(batch).sample(k.rows, few, 0, l.cfg.Dim)
	rest := new(batch).sample(l.pool.batch(), n-few, 0, l.cfg.Dim)
	s, both, err := l.learnBoth(rest, kind, share, s, func() bool { return l.knows(kind) })
	if err == nil && !both {
		k.forget(k.rows.len()/2, l.counts.Rows, l.cfg.Dim)
	}
	return s, err
}

// learnBoth restarts from rows of two kinds, of which the other one has that share of the stream. The current regime stays if they cannot be fitted
// together, or if right does not hold afterwards.
func (l *Learner) learnBoth(one, other batch, share float64, s Step, right func() bool) (both Step, done bool, err error) {
	var all batch
	all.append(one)
	all.append(other)
	before := l.regime
	l.setRegime(regime{settings: l.asked.resolved().recipe(), aligned: before.aligned, cl: make([]float64, len(before.cl)), gap: before.gap})
	both = s
	inside, used, err := l.fitInside(all, &both)
	if err == nil && used > 0 {
		err = l.chooseBeginning(inside.len(), &both)
	}
	if err != nil {
		return Step{}, false, err
	}
	if used == 0 || !l.split || !right() {
		l.setRegime(before)
		l.renewEstimator()
		return s, false, nil
	}
	l.levelOfBoth(all, one.len(), share)
	l.leave()
	l.counts.Since = uint64(inside.len())
	l.counts.count(AlarmRecurring)
	both.Alarm, l.former.left = AlarmRecurring, false
	l.renewEstimator()
	return both, true, nil
}

// share returns which share of the stream the kept rows stand for. From the first of n times to the last there are n−1 intervals.
func (k *recurring) share(now uint64) float64 {
	times := float64(k.episodes[len(k.episodes)-1]-k.episodes[0]) + 1
	return float64(k.released) / float64(now-k.since) * (times - 1) / times
}

// alike reports whether the rows of every second time are where the Gaussian of the others would have them, and the other way round.
func (l *Learner) alike() bool {
	k, d := &l.recurring, l.cfg.Dim
	var halves [2][]int
	for i, e := range k.episodes {
		halves[e%2] = append(halves[e%2], i)
	}
	for turn := range halves {
		one, other := new(batch).pick(k.rows, halves[turn], d), new(batch).pick(k.rows, halves[1-turn], d)
		if one.len() < 2*d || !l.within(other, one) {
			return false
		}
	}
	return true
}

// within reports whether rows are inside of the Gaussian of others: their mean squared distance is at most twice what those have.
func (l *Learner) within(b, others batch) bool {
	g := newRunningMoments(l.cfg.momentsMemory(), l.cfg.Dim)
	g.start(others.x, l.work)
	d := l.cfg.Dim
	cov := g.full()
	for i := range d { // a column that is constant in the others may differ by rounding
		cov[i*d+i] += recurringRounding * (g.mean[i]*g.mean[i] + l.moments.cov[i*d+i])
		if cov[i*d+i] == 0 {
			cov[i*d+i] = 1
		}
	}
	factor := make([]float64, d*d)
	if _, err := prop1.Factor(factor, cov, d, l.work); err != nil {
		return false
	}
	y := make([]float64, len(b.x))
	for i, v := range b.x {
		y[i] = v - g.mean[i%d]
	}
	l.work.SolveRight(linalg.Dense(factor, d), y, d, d, b.len())
	return kernel.NormSquared(y) <= recurringWithin*float64(len(y))
}

// knows reports whether the gate lets most of the rows pass.
func (l *Learner) knows(b batch) bool {
	l.estimator.load(l.pool, l.metric, l.work)
	_, _, far := l.judge(b, new(Step))
	return 2*far < b.len()
}

// levelOfBoth sets the level of the NLL for a stream of two kinds in stretches: the first rows are of the one, and those of the other have that share.
func (l *Learner) levelOfBoth(b batch, first int, share float64) {
	scores := l.score(b)
	one, other := level{}, level{}
	one.moveTo(scores[:first], scores[:first], float64(l.cfg.Minibatch))
	other.moveTo(scores[first:], scores[first:], float64(l.cfg.Minibatch))
	between := share * (1 - share) * (one.mean - other.mean) * (one.mean - other.mean)
	mean := one.mean + share*(other.mean-one.mean)
	l.drift.nll = level{seen: driftSettle, mean: mean, variance: between + max(one.variance, other.variance), floor: between}
}

func (k *recurring) write(w *state.Writer) {
	k.rows.write(w)
	w.Words(k.episodes)
	w.U64(k.episode)
	w.U64(k.released)
	w.U64(k.since)
	w.U64(k.normal)
}

func (k *recurring) read(r *reader, dim int) {
	*k = recurring{rows: readBatch(r), episodes: r.Words(), episode: r.U64(), released: r.U64(), since: r.U64(), normal: r.U64()}
	if r.Err == nil && (!k.rows.valid(dim) || len(k.episodes) != k.rows.len()) {
		r.Err = fmt.Errorf("%d released rows, of %d times", k.rows.len(), len(k.episodes))
	}
}
