package online

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/online/internal/pool"
)

const (
	stuckLonger = 2     // times as long as ever before a sensor that is stuck repeats its value
	stuckRun    = 5     // rows of the pool that a run has at least: fewer may be equal by chance, and far from one another
	stuckSoon   = 2     // minibatches: a run of a column that began earlier has been learnt, and is as any other
	usualRows   = 256   // rows of the pool that tell a usual value
	runApart    = 4     // mean distances of the pool's rows that two of a run are apart at most, or a minibatch
	stuckHolds  = 2     // rows that a feed has held before, each for half as long, if it holds its last one while the machine is idle
	holdsShare  = 0.125 // of the stream, if none of them was learnt
)

// Sensors that are stuck repeat a value that may be as likely as any, so that no score tells. What tells is that values are equal where they never were.

// isStuck reports whether all rows of a minibatch are equal in some column that has never before repeated a value for half as long; or whether they are equal, and
// hardly any row of the pool is like them, nor has it held other rows for half as long. The repetition may have begun within a minibatch that
// was learnt, and gone on where rows were refused; before is how many rows it is known to have already. judged says that all rows are equal and that there are
// enough of them to tell. It sets stuckFor.
func (l *Learner) isStuck(b pool.Batch, before uint64) (stuck, judged bool) {
	l.stuckFor = 0
	d := l.cfg.Dim
	if b.Len() == 0 || b.Len() < kernel.AtomCopies && (b.EqualFirst(d) < b.Len() || !l.goesOn(b)) {
		return false, false
	}
	var order []int
	for _, k := range l.metric.Active {
		if !equalInColumn(b, k, d) {
			continue
		}
		if order == nil {
			order = pool.InOrder(l.pool.Places)
		}
		if l.usual(k, b.X[k]) {
			if rows := max(uint64(b.Len()), before); !l.hasRun(order, k, rows/stuckLonger) {
				l.stuckFor = rows
				return true, true
			}
			continue
		}
		same := func(one, other []float64) bool { return one[k] == other[k] }
		r := l.runs(order, b, same, stuckSoon*uint64(l.cfg.Minibatch))
		if rows := max(r.now(), before); r.equal >= kernel.AtomCopies && r.longest() < rows/stuckLonger {
			l.stuckFor = rows
			return true, true
		}
	}
	if order == nil || b.EqualFirst(d) < b.Len() {
		return false, false
	}
	r := l.runs(order, b, slices.Equal[[]float64], math.MaxUint64)
	if r.equal < kernel.AtomCopies {
		return false, false
	}
	return !l.rests(r, b.X[:d]) && !l.holds(r, b.X[:d]), true
}

// goesOn reports whether the row before a minibatch was equal to its first one. A few rows tell nothing alone.
func (l *Learner) goesOn(b pool.Batch) bool {
	d, newest := l.cfg.Dim, -1
	if refused := l.refusedLately(); refused.Len() > 0 {
		return slices.Equal(refused.X[(refused.Len()-1)*d:], b.X[:d])
	}
	for i, p := range l.pool.Places {
		if p.Partition == b.Places[0].Partition && (newest < 0 || p.At > l.pool.Places[newest].At) {
			newest = i
		}
	}
	return newest >= 0 && slices.Equal(l.pool.Row(newest), b.X[:d])
}

// equalInColumn reports whether all rows have the same value in a column.
func equalInColumn(b pool.Batch, column, d int) bool {
	for i := column + d; i < len(b.X); i += d {
		if b.X[i] != b.X[column] {
			return false
		}
	}
	return true
}

// run is a stretch of time in which the rows of a partition are equal, in one column or in all.
type run struct {
	row         []float64
	first, last pool.Place
}

// span returns how many rows of the stream lie between the first row and the last.
func (r *run) span() uint64 { return r.last.At - r.first.At }

// poolRuns are the runs of the pool, and that of the minibatch.
type poolRuns struct {
	known bool  // the places of the rows are
	runs  []run // without the minibatch's own
	own   []run // of each of the minibatch's partitions, from where it begins in the pool or in quarantine
	equal int   // rows of the minibatch's own, in all three
}

// usual reports whether a column has that value in most rows of the pool, such as 0 where there are pulses now and then. How long it has it is chance. Some
// rows tell.
func (l *Learner) usual(column int, value float64) bool {
	n, rows := 0, 0
	for i := 0; i < l.pool.Len(); i += max(1, l.pool.Len()/usualRows) {
		if rows++; l.pool.Row(i)[column] == value {
			n++
		}
	}
	return 2*n > rows
}

// hasRun reports whether a column has repeated a value for that number of rows, as far as the pool's rows tell. It looks no further than the first such run, which
// is near the beginning where a column hardly ever has another value: runs takes all of the pool.
func (l *Learner) hasRun(order []int, column int, rows uint64) bool {
	from := 0
	for i, row := range order {
		p, first := l.pool.Places[row], l.pool.Places[order[from]]
		switch {
		case p.Partition == pool.NoPartition:
			return true
		case p.Partition != first.Partition || l.pool.Row(row)[column] != l.pool.Row(order[from])[column]:
			from = i
		case i-from+1 >= stuckRun && p.At-first.At >= rows:
			return true
		}
	}
	return false
}

// runs finds the runs of the pool. What the minibatch goes on from is its own, if that began at most soon rows before. order is that of time.
//
// Rows that are equal before and after others that were refused are no run: they are what was learnt of one that is at fault, with the rest of the minibatches
// in which it began and ended.
func (l *Learner) runs(order []int, b pool.Batch, same func(one, other []float64) bool, soon uint64) poolRuns {
	r := l.ownRuns(b, same)
	r.known = l.pool.Places[order[0]].Partition != pool.NoPartition
	for from, to := 0, 0; from < len(order); from = to {
		partition := l.pool.Places[order[from]].Partition
		for to = from + 1; to < len(order) && l.pool.Places[order[to]].Partition == partition; to++ {
		}
		l.runsOf(&r, order[from:to], b.X[:l.cfg.Dim], same, soon)
	}
	return r
}

// runsOf adds the runs of a partition.
func (l *Learner) runsOf(r *poolRuns, order []int, row []float64, same func(one, other []float64) bool, soon uint64) {
	at := func(i int) pool.Place { return l.pool.Places[order[i]] }
	equal := func(i, j int) bool { return same(l.pool.Row(order[i]), l.pool.Row(order[j])) }
	end, next := len(order), uint64(math.MaxUint64)
	apart := max(uint64(l.cfg.Minibatch), runApart*(at(end-1).At-at(0).At)/uint64(end))
	if own := r.of(at(0).Partition); own != nil {
		from := end
		for from > 0 && same(l.pool.Row(order[from-1]), row) {
			from--
		}
		if from < end && own.first.Near(at(from), soon) {
			own.first = at(from)
			r.equal += end - from
			end = from
		}
		next = own.first.At
	}
	before := uint64(0)
	for from, to := 0, 0; from < end; from = to {
		for to = from + 1; to < end && equal(from, to) && at(to).At-at(to-1).At <= apart; to++ {
		}
		one, after := run{l.pool.Row(order[from]), at(from), at(to - 1)}, next
		if to < end {
			after = at(to).At
		}
		cut := one.span() < apart && (after > one.last.At+apart || from > 0 && one.first.At > before+apart)
		if before = one.last.At; !cut && to-from >= stuckRun {
			r.runs = append(r.runs, one)
		}
	}
}

// ownRuns returns the run of the minibatch, with rows that were refused lately that it goes on from.
func (l *Learner) ownRuns(b pool.Batch, same func(one, other []float64) bool) (r poolRuns) {
	d := l.cfg.Dim
	for _, p := range b.Places {
		if own := r.of(p.Partition); own != nil {
			own.last = p
		} else {
			r.own = append(r.own, run{b.X[:d], p, p})
		}
	}
	r.equal = b.Len()
	refused := l.refusedLately()
	for i := refused.Len() - 1; i >= 0 && same(refused.X[i*d:(i+1)*d], b.X[:d]); i-- {
		if own := r.of(refused.Places[i].Partition); own != nil {
			own.first = refused.Places[i]
		}
		r.equal++
	}
	return r
}

// of returns the minibatch's own run in a partition; nil: it has no rows of it.
func (r *poolRuns) of(partition int32) *run {
	for i := range r.own {
		if r.own[i].first.Partition == partition {
			return &r.own[i]
		}
	}
	return nil
}

// now returns how many rows the minibatch's own run has, in the partition in which it is longest.
func (r *poolRuns) now() (rows uint64) {
	for i := range r.own {
		rows = max(rows, r.own[i].span()+1)
	}
	return rows
}

// longest returns how many rows the longest run spans. Where places are not known, it may be any number.
func (r *poolRuns) longest() (longest uint64) {
	if !r.known {
		return math.MaxUint64
	}
	for i := range r.runs {
		longest = max(longest, r.runs[i].span())
	}
	return longest
}

// rests reports whether rows of the pool, before the run that goes on, are equal to its rows.
func (l *Learner) rests(r poolRuns, row []float64) bool {
	n := 0
	for i, p := range l.pool.Places {
		if own := r.of(p.Partition); slices.Equal(l.pool.Row(i), row) && (own == nil || p.At < own.first.At) {
			n++
		}
	}
	return n >= kernel.AtomCopies
}

// holds reports whether other rows have been held for half as long: a feed repeats its last row while a machine is idle, and each time that is another
// row. One of them was learnt from its beginning to its end, or they are a large part of the stream: sensors that are stuck again and again are refused each time.
func (l *Learner) holds(r poolRuns, row []float64) bool {
	if !r.known {
		return false
	}
	half := max(r.now()/stuckLonger, stuckRun)
	var held []run
	add := func(one run) (other bool) {
		if one.span() < half || slices.Equal(one.row, row) || slices.ContainsFunc(held, func(h run) bool { return slices.Equal(h.row, one.row) }) {
			return false
		}
		held = append(held, one)
		return true
	}
	learnt := false
	for _, one := range r.runs {
		learnt = add(one) || learnt
	}
	d := l.cfg.Dim
	refused := l.warm
	for from, to := 0, 0; from < refused.Len(); from = to {
		one := run{refused.X[from*d : (from+1)*d], refused.Places[from], refused.Places[from]}
		for to = from; to < refused.Len() && refused.Places[to].Partition == one.first.Partition && slices.Equal(refused.X[to*d:(to+1)*d], one.row); to++ {
			one.last = refused.Places[to]
		}
		add(one)
	}
	return len(held) >= stuckHolds && (learnt || r.share(held) >= holdsShare)
}

// share returns which part of the stream was held, in the partitions of the minibatch, from the first of these runs on until its own.
func (r *poolRuns) share(held []run) float64 {
	var rows, all float64
	for _, own := range r.own {
		first := own.first.At
		for _, one := range held {
			if one.first.Partition == own.first.Partition {
				first, rows = min(first, one.first.At), rows+float64(one.span())
			}
		}
		all += float64(own.first.At - first)
	}
	return rows / all
}
